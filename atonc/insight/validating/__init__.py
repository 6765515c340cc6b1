"""`atonc validate`: the program beside the model's own kernels, and what is let pass."""
