"""Front ends: from samples or pictures to the codes of a network's input, in C and in Python with the same bits."""
