"""Functions of one value and arithmetic on two."""
