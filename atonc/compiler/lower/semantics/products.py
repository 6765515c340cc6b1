"""Products of two activations: terms that are added with 24 bits between units, cut to 16 bits and made codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted
from atonc.compiler.lower.semantics.sums import requantised

if TYPE_CHECKING:
    from atonc.compiler.lower.product.terms import ProductTerm


def multiplied(
    left: NDArray[Any], right: NDArray[Any], terms: Sequence[ProductTerm], zero: int, rule: Requantisation
) -> Ints:
    """`left` [..., rows, depth] and `right` [..., depth, columns] as codes; `zero` of the features, 0..255."""
    features, kernels = ints(left) + 128, ints(right)
    total: Ints = np.zeros(1, np.int64)
    for number, term in enumerate(terms, 1):
        of_zeros = np.full_like(features, zero) if term.features.name == "ZERO" else features
        by = {"CODES": kernels, "COMPLEMENTS": -1 - kernels, "VALUE": np.full_like(kernels, term.value)}
        total = total + _product(of_zeros, by[term.kernels.name])
        total = total if number == len(terms) else limited(total, 24)
    return requantised(rule, limited(shifted(total, rule.out_shift), 16))


def _product(left: Ints, right: Ints) -> Ints:
    """Far below 2^53, so float64 loses nothing."""
    return ints(left.astype(np.float64) @ right.astype(np.float64))
