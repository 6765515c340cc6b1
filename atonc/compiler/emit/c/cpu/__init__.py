"""Calls of our CPU kernels, one file per family of operators."""
