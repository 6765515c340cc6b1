"""Networks and images on a board, virtual or real: build, run, compare every byte, record."""
