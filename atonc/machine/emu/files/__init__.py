"""Reads what ST's tool chain leaves on disk: `network_c.read_network`, `initialisers.load_initialisers`."""
