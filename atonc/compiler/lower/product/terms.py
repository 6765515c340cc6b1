"""A product of two tensors of codes as terms that CONVACC units add up exactly.

Features are bytes f = code + 128 with the zero point z = zero + 128, kernels are codes b with the zero point y:

    sum (f - z)(b - y)  =  sum f b  +  sum z (-1 - b)  +  sum f (-y)  +  depth z (1 + y)

Each of the sums is a 1x1 convolution: of the features or of a picture of one value, with kernels that are codes, their
complements (-1 - b is a byte for every b, -b is not) or one value. Features without sign are what chains of such units
were seen with. The last summand is known to the compiler and goes into the bias; terms that are zero are left out.
"""

from __future__ import annotations

from enum import Enum

from atonc.machine.base.frozen import dataclass

MOST_DEPTH = 128  # channels of a unit; the sums between units then stay within their 24 bits


class Features(Enum):
    CODES = "the features"
    ZERO = "their zero point, at every place"


class Kernels(Enum):
    CODES = "the codes"
    COMPLEMENTS = "-1 - code"
    VALUE = "one value"


@dataclass(frozen=True)
class ProductTerm:
    features: Features
    kernels: Kernels
    value: int = 0  # of kernels that are all the same


def terms_of(zero: int, kernel_zero: int) -> tuple[ProductTerm, ...]:
    """`zero`: of features as bytes without sign, 0..255. `kernel_zero`: of kernels as codes, -128..127."""
    terms = [ProductTerm(Features.CODES, Kernels.CODES)]
    if zero:
        terms.append(ProductTerm(Features.ZERO, Kernels.COMPLEMENTS))
    values = (64, 64) if kernel_zero == -128 else (-kernel_zero,) if kernel_zero else ()
    return (*terms, *(ProductTerm(Features.CODES, Kernels.VALUE, value) for value in values))


def known(zero: int, kernel_zero: int, depth: int) -> int:
    """What the terms leave out of the sum."""
    return depth * zero * (1 + kernel_zero)
