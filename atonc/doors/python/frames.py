"""Rows as a data frame, where pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.machine.base.errors import ToolError


def data_frame(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    try:
        import pandas
    except ImportError:
        raise ToolError("pandas is not installed", remedy="pip install pandas, or use rows()") from None
    return pandas.DataFrame(rows, columns=columns)
