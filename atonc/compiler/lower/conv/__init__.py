"""Convolutions and dense layers, transposed and wide ones, and the numbers of ST's releases 2.x."""
