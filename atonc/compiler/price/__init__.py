"""What a compiled program costs: its epochs by both cycle models, its CPU steps by their calls."""
