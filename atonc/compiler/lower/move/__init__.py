"""Operators that move values, and the copies that others need."""
