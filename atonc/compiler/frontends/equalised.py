"""What a quantiser did to the channels of a model, told in the file: with it a layer can be compared with float.

An equalised network multiplies a channel in one layer and divides it in the next, so neither layer has the weights of
the float model, although both are right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from atonc.compiler.frontends import limits

KEY = "atonc.equalised"  # in the metadata of an ONNX file: tensor of the float model -> a factor for each channel
_MOST_CHARACTERS = 16 << 20
Gains = dict[str, tuple[float, ...]]


def tell(model: Any, gains: Mapping[str, Any]) -> None:
    """Writes it into an ONNX model."""
    rounded = {name: [float(f"{factor:.7g}") for factor in factors] for name, factors in sorted(gains.items())}
    model.metadata_props.add(key=KEY, value=json.dumps(rounded, separators=(",", ":")))


def told(model: Any) -> Gains:
    """Reads it; what makes no sense is as if nothing had been said."""
    text = next((entry.value for entry in model.metadata_props if entry.key == KEY), "")
    if not text or len(text) > _MOST_CHARACTERS:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    named = found.items() if isinstance(found, dict) and len(found) <= limits.MAX_TENSORS else ()
    return {name: tuple(map(float, factors)) for name, factors in named if _are_factors(factors)}


def _are_factors(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(factor, int | float) and not isinstance(factor, bool) and isfinite(factor) and factor > 0
        for factor in found
    )
