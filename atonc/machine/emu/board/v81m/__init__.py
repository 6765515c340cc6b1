"""Armv8.1-M: the instructions that a Cortex-M55 has and unicorn's Cortex-M33 has not."""
