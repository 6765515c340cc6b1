"""The page of `four_bits`."""
from typing import Any


def table(rows: list[dict[str, Any]]) -> str:
    return ""
