"""Resizing of pictures."""
