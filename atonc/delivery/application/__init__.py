"""Several networks in one firmware: an application file becomes one plan of memory, one flash image and C files."""
