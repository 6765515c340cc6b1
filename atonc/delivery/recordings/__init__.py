"""Recordings of boards: one file that others can check, compare and collect."""
