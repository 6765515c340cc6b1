"""Which form an operator gets: what is possible, and what is worth what (policy.py)."""
