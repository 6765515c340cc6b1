"""Data sets: looked at as a whole before the work begins, read sample by sample while it runs."""

from atonc.evaluating.datasets.find import open_data
from atonc.evaluating.datasets.types import Data, Entry

__all__ = ["Data", "Entry", "open_data"]
