"""Front ends: from samples or images to the codes of a network's input, in C and in Python with the same bits."""
