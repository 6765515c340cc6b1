"""Mapped operators on whole batches: the integer functions of `atonc.lower.meaning`, fast and bit for bit."""
