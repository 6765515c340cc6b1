"""Mapped operators on whole batches: the integer functions of `atonc.compiler.lower.semantics`, fast and bit for
bit."""
