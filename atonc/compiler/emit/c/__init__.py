"""The program as C: what a compiler for the Cortex-M55 reads."""
