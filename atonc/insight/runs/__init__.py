"""Compiled networks run from their folder, compared and checked: `atonc run`, `atonc disasm`."""
