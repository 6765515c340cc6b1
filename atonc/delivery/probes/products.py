"""Cycles of a convolution that waits for nothing but its own products, with features of 16 bits and kernels of 8."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atonc.delivery.probes.convolution import PLAIN, Conv, convolutions
from atonc.delivery.probes.types import Probe
from atonc.machine.hw.limits import PRODUCTS

_LONG = Conv(64, 32, 3, 4, 5, (2, 2, 0, 2), PLAIN, 3)  # more kernels than channels: results take longer than features
_SHORT = replace(_LONG, height=16)
_NAME = "conv-5x3-products"
_KNOWN = f"{PRODUCTS[PLAIN.simd]} products a cycle, inferred from published epochs that were measured"


def _form(conv: Conv) -> str:
    return f"a convolution with windows of 5x3, {conv.channels} channels, {conv.kernels} kernels, {conv.height} lines"


def _products(conv: Conv) -> int:
    return conv.results * conv.unit.taps


PROBES = (
    Probe(
        f"{_NAME}-short",
        _form(_SHORT),
        _KNOWN,
        partial(convolutions, _SHORT),
        "conv-5x3-three-channels",
        argument="S8",
    ),
    Probe(
        _NAME,
        _form(_LONG),
        _KNOWN,
        partial(convolutions, _LONG),
        "conv-5x3-three-channels",
        argument="S8",
        units=_products(_LONG) - _products(_SHORT),
        baseline=f"{_NAME}-short",
        rate="products",
        expects=PRODUCTS[PLAIN.simd],
    ),
)
