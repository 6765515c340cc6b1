"""Codes in training: real values become codes and real values again, rounded as the chip rounds; gradients go through
the rounding as if it were not there, and stop where codes end."""

from __future__ import annotations

import torch
from torch import Tensor

LOW, HIGH = -128, 127


def rounded(values: Tensor, zero: Tensor | None = None) -> Tensor:
    """Nearest integers, with the gradient of the values themselves. Ties go away from zero once `zero` is added, as the
    NPU's shifts round, or to even numbers where it is None."""
    plain = values.detach()
    nearest = torch.round(plain)
    if zero is not None:
        tie = (plain - torch.trunc(plain)).abs() == 0.5
        nearest = torch.where(tie, plain + torch.where(plain + zero < 0, -0.5, 0.5), nearest)
    return values + (nearest - plain)  # exact: a number and its nearest integer differ by a number of its own precision


def coded(values: Tensor, scale: Tensor, zero: Tensor, to_even: bool) -> Tensor:
    """Values as a tensor of 8 bits holds them."""
    steps = rounded(values / scale, None if to_even else zero)
    return (torch.clamp(steps + zero, LOW, HIGH) - zero) * scale


def weight_codes(values: Tensor, scales: Tensor, low: int, high: int) -> Tensor:
    """Codes of weights, which were rounded on a computer: to even, as the quantiser does."""
    return torch.clamp(rounded(values / scales), low, high)


def range_form(low: Tensor, high: Tensor, plain: bool) -> tuple[Tensor, Tensor]:
    """Scale and zero point of a range, as the quantiser chooses them (`quantizing.ranges`: scale_of, symmetric)."""
    low, high = torch.clamp(low, max=0.0), torch.clamp(high, min=0.0)
    if plain and bool(low < 0):
        return torch.maximum(torch.maximum(high / HIGH, low / LOW), torch.tensor(1e-9)), torch.zeros(())
    scale = torch.clamp((high - low) / (HIGH - LOW), min=1e-9)
    return scale, torch.clamp(torch.round(LOW - low / scale), LOW, HIGH)
