"""What follows from a board: pool files, linker fragments, the check of a firmware against them."""
