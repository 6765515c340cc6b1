"""What programs cost: cycles by two models, energy, and how much they multiply."""
