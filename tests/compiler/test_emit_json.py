"""Descriptions are what `json.dumps` gives, written faster."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from atonc.compiler.emit.write import to_json

DOCUMENTS: list[dict[str, Any]] = [
    {},
    {"empty": [[], {}, ()], "nested": {"a": [1, [2, {"b": []}]]}},
    {"constants": [None, True, False, 0, 1, -(1 << 40)]},
    {"floats": [0.1, -0.0, 1e300, 5e-324, 2.0, np.float64(0.25), float("inf"), float("nan")]},
    {"text": ["é", '"', "\\", "\n", ""], "ключ": "value"},
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_same_text(document: dict[str, Any]) -> None:
    assert to_json(document).decode() == json.dumps(document, indent=1) + "\n"
