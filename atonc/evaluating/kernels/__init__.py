"""Mapped operators on whole batches: the integer functions of `atonc.lower.semantics`, fast and bit for bit."""
