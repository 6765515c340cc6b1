"""Products of two activations."""
