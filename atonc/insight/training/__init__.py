"""Training as the chip rounds: a quantised model as a PyTorch module with codes where the compiled network has them."""
