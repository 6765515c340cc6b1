"""Readers of model files: bytes -> Graph."""
