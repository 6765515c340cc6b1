"""MVE, the vector extension of the Cortex-M55: 128-bit registers, predicates, one file per family of instructions."""
