"""The program on the emulator, layer by layer, against exact arithmetic: a wrong one is refused."""
