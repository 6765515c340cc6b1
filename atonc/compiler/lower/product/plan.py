"""Products in numbers, before anything has a place: terms, slices of the sum, and the order of the kernels.

Features are bytes f = code + 128 with the zero point z = zero + 128, kernels are codes b with the zero point y:

    sum (f - z)(b - y)  =  sum f b  +  sum z (-1 - b)  +  sum f (-y)  +  depth z (1 + y)

Each of the sums is a 1x1 convolution: of the features or of a picture of one value, with kernels that are codes, their
complements (-1 - b is a byte for every b, -b is not) or one value. Features without sign are what chains of such units
were seen with. The last summand is known to the compiler and goes into the bias; terms that are zero are left out.

A unit sums 128 channels, so longer sums go in slices. As many terms of slices as a chain has units are one chain, whose
sums keep all their bits. More are passes of a single unit, whose sums return through the switch with 16 bits: that is
exact enough where they are small, as those of a softmax are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from itertools import product as pairs
from math import ceil, isqrt
from typing import NamedTuple

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.conv.chains import FeatureMode, limits
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.wiring import require_codes
from atonc.compiler.ops.kernel_order import KernelOrder, UnitKernels
from atonc.compiler.plan.policy import EPOCH_CYCLES, LEAST_PRODUCT
from atonc.compiler.select.rules import PRODUCT_DEPTH, PRODUCT_ROW, PRODUCT_SHAPE, PRODUCT_SMALL
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import LEAST_DEEP, MAX_CHAIN, MOST_PASSES, SUM_LIMIT

MODE = FeatureMode(1, unsigned=True, deep=True, packed_frame=True)
MOST_MATRICES = 64  # of one product: each is a convolution with kernels of its own
NOTHING = UnitKernels(0, 0)
CODES, COMPLEMENTS = (-1, 0), (-1, -1)  # what is kept of a code, and what is turned


class TermOfZeros(NamedTuple):
    """`of_zero`: of a picture of the zero point, else of the features; `mask` and `value`: of the kernels."""

    of_zero: bool
    mask: int
    value: int


class Addend(NamedTuple):
    """What a unit adds in one pass."""

    term: TermOfZeros
    kernels: UnitKernels


def terms_of(zero: int, kernel_zero: int) -> tuple[TermOfZeros, ...]:
    """`zero`: of features as bytes without sign, 0..255. `kernel_zero`: of kernels as codes, -128..127."""
    values = (64, 64) if kernel_zero == -128 else (-kernel_zero,) if kernel_zero else ()
    complements = (TermOfZeros(True, *COMPLEMENTS),) if zero else ()
    return (TermOfZeros(False, *CODES), *complements, *(TermOfZeros(False, 0, value) for value in values))


def known(zero: int, kernel_zero: int, depth: int) -> int:
    """What the terms leave out of the sum."""
    return depth * zero * (1 + kernel_zero)


def farthest(zero: int, kernel_zero: int) -> int:
    """How far the terms of one product go, on their way from unit to unit too."""
    most = 0
    for f, b in pairs((0, 255), (-128, 127)):
        way = accumulate((zero if t.of_zero else f) * ((b & t.mask) ^ t.value) for t in terms_of(zero, kernel_zero))
        most = max(most, *map(abs, way))
    return most


@dataclass(frozen=True)
class MatrixProduct:
    batch: tuple[int, ...]
    rows: int
    depth: int
    columns: int
    turned: tuple[bool, bool]  # whether the summed axis is the last one
    zero: int  # of the features, 0..255
    kernel_zero: int
    largest: int  # sum

    @cached_property
    def terms(self) -> tuple[TermOfZeros, ...]:
        return terms_of(self.zero, self.kernel_zero)

    @cached_property
    def slices(self) -> int:
        return -(-self.depth // limits(MODE, 1, 1).channels)

    @cached_property
    def channels(self) -> int:
        """A unit sums so many."""
        return max(-(-self.depth // self.slices), LEAST_DEEP[MODE.feature_bytes])

    @property
    def chained(self) -> bool:
        """Whether one chain adds everything, each unit once."""
        return self.slices * len(self.terms) <= MAX_CHAIN

    @cached_property
    def passes(self) -> tuple[tuple[Addend, ...], ...]:
        """What the units of the chain add, pass by pass."""
        if self.chained:
            return (tuple(self._addend(term, k) for k in range(self.slices) for term in self.terms),)
        zeros = [term for term in self.terms if term.of_zero]
        found = []
        for number, term in enumerate(term for term in self.terms if not term.of_zero):
            found += [self._addend(term, k) for k in range(self.slices)]
            for other in zeros:  # their frames lie behind those of the features, so every round reads them
                taken = (self._addend(other, k) for k in range(self.slices))
                found += [one if number == 0 else Addend(other, NOTHING) for one in taken]
        return tuple((one,) for one in found)

    def _addend(self, term: TermOfZeros, number: int) -> Addend:
        first = number * self.channels
        return Addend(term, UnitKernels(first, min(self.channels, self.depth - first), term.mask, term.value))

    @cached_property
    def size(self) -> tuple[int, int]:
        """Height and width of the features as a picture: as square as it goes."""
        height = next(n for n in range(isqrt(self.rows), 0, -1) if self.rows % n == 0)
        return height, self.rows // height

    @cached_property
    def order(self) -> KernelOrder:
        """As many kernels in a set as are cheapest."""
        size, units = limits(MODE, 1, 1), tuple(one.kernels for chain in self.passes for one in chain)
        most = min(size.kernels, size.weights // self.channels, self.columns)
        kernels = min(range(1, most + 1), key=lambda n: (self.cycles(n), -n))
        return KernelOrder(kernels, self.channels, units, self.turned[1])

    def cycles(self, kernels: int) -> int:
        """Counts the cycles of all sets: the longer of features and results, and another epoch for the rest."""
        words = -(-self.rows * self.channels // 3)
        sets, rest = divmod(self.columns, kernels)
        extra = max(words, self.rows * rest) + EPOCH_CYCLES if rest else 0
        return (sets * max(words, self.rows * kernels) + extra) * len(self.passes)


def is_row(op: Op, graph: Graph) -> bool:
    """Whether the first factor is a single row and the second one more than a column."""
    a, b = (graph.tensors[name].shape for name in op.inputs[:2])
    if min(len(a), len(b)) < 2:
        return False
    return a[-1 if op.attrs.get("transpose_a") else -2] == 1 < b[-2 if op.attrs.get("transpose_b") else -1]


def product_of(op: Op, graph: Graph) -> MatrixProduct:
    """Refuses what no units can multiply."""
    a, b, out = (graph.tensors[name] for name in (*op.inputs[:2], *op.outputs))
    require_codes(a, b, out)
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refusal(PRODUCT_SHAPE, f"shapes {a.shape} and {b.shape}", "two matrices", "reshape the vector")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if np.prod(batch, dtype=int) > MOST_MATRICES:
        raise Refusal(PRODUCT_SHAPE, f"{batch} products", f"{MOST_MATRICES} at a time", "fewer heads or batches")
    if is_row(op, graph) and op.attrs.get("transpose_b"):  # else the CPU would have to gather its columns
        seen = f"{b.elements:,} bytes for a row"
        raise Refusal(PRODUCT_ROW, seen, PRODUCT_ROW.limit, "sums of at most 128 along the last axis of the matrix")
    turned = not op.attrs.get("transpose_a"), bool(op.attrs.get("transpose_b"))
    rows, depth = a.shape[-2:] if turned[0] else a.shape[:-3:-1]
    columns = b.shape[-2 if turned[1] else -1]
    work = int(np.prod(batch, dtype=int)) * rows * columns * depth
    if work < LEAST_PRODUCT:
        raise Refusal(PRODUCT_SMALL, f"{work:,} products", f"{LEAST_PRODUCT:,}", "the CPU does as few at once")
    zero, kernel_zero = a.zero_point + 128, b.zero_point
    shares = min(1.0, _features(op, a, graph) / (255 * depth))  # of the most that features sum up to
    largest = ceil(shares * depth * farthest(zero, kernel_zero))
    found = MatrixProduct(batch, rows, depth, columns, turned, zero, kernel_zero, largest)
    most = limits(MODE, 1, 1).line // found.channels
    if found.size[1] > most:
        seen = f"{rows} rows of {found.channels}"
        raise Refusal(PRODUCT_SHAPE, seen, f"lines of {most} pixels", "a number of rows that has divisors")
    if found.largest > SUM_LIMIT or len(found.passes) > MOST_PASSES:
        seen = f"sums of {depth} products, up to {found.largest:,}"
        raise Refusal(PRODUCT_DEPTH, seen, f"{SUM_LIMIT:,}", "cut the sum into parts and add them")
    return found


def _features(op: Op, tensor: Tensor, graph: Graph) -> int:
    """The most that features sum up to, where that is known: shares of a softmax are 1 together, and rounding to the
    nearest code at most doubles each."""
    name, producer = tensor.name, graph.producers.get(tensor.name)
    while producer is not None and producer.kind in ("reshape", "identity", "squeeze", "expand_dims"):
        name = producer.inputs[0]
        producer = graph.producers.get(name)
    shares = producer is not None and producer.kind == "softmax" and tensor.zero_point == -128
    last = producer is not None and producer.attrs.get("axis", -1) in (-1, len(graph.tensors[name].shape) - 1)
    shares = shares and last and not op.attrs.get("transpose_a") and graph.tensors[name].shape[-1] == tensor.shape[-1]
    return ceil(2 / tensor.scale) if shares else sys.maxsize


def matrices(product: MatrixProduct, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The place of a factor's matrix in every batch; axes of one turn, and axes that are missing in front, are the same
    for all."""
    own = len(shape) - 2
    for place in np.ndindex(*product.batch):
        yield tuple(
            index if size > 1 else 0 for size, index in zip(shape[:own], place[len(place) - own :], strict=True)
        )
