"""Which buffers the application supplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atonc.errors import UnsupportedError
from atonc.place.lifetimes import root


def supplied_buffers(
    inputs: Sequence[str],
    outputs: Sequence[str],
    aliases: Mapping[str, str],
    allocate_inputs: bool = True,
    allocate_outputs: bool = True,
) -> tuple[str, ...]:
    """Inputs and outputs that take no memory of the network; each must be a memory of its own."""
    supplied = [*([] if allocate_inputs else inputs), *([] if allocate_outputs else outputs)]
    owners: dict[str, str] = {}
    for name in dict.fromkeys((*inputs, *outputs)):
        other = owners.setdefault(root(name, aliases), name)
        if other != name and (name in supplied or other in supplied):
            raise _same_memory(name, other)
    both = set(inputs) & set(outputs) & set(supplied)
    if both:
        raise _same_memory(min(both), "the input of that name")
    return tuple(supplied)


def _same_memory(name: str, other: str) -> UnsupportedError:
    return UnsupportedError(
        f"the same bytes as {other}, in one memory, so the application cannot supply both",
        where=name,
        rule="every input and output of the application is a buffer of its own",
        remedy="leave out --no-inputs-allocation and --no-outputs-allocation, or cut one of the two",
    )
