"""Which buffers the application supplies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from atonc.compiler.plan.aliases import root
from atonc.machine.base.errors import UnsupportedError


def user_allocated_edges(
    inputs: Sequence[str], outputs: Sequence[str], allocate_inputs: bool, allocate_outputs: bool
) -> tuple[str, ...]:
    """Inputs and outputs that take no memory of the network."""
    return tuple(dict.fromkeys([*([] if allocate_inputs else inputs), *([] if allocate_outputs else outputs)]))


def require_apart(
    user_allocated: Collection[str], inputs: Sequence[str], outputs: Sequence[str], aliases: Mapping[str, str]
) -> None:
    """Each of them must be a memory of its own: recipes copy where an output would share one."""
    owners: dict[str, str] = {}
    for name in (*inputs, *outputs):
        other = owners.setdefault(root(name, aliases), name)
        same = other != name or (name in inputs and name in outputs)
        if same and (name in user_allocated or other in user_allocated):
            raise UnsupportedError(
                "an input that is also an output cannot be supplied by the application twice"
                if other == name
                else f"shares its memory with {other}, so the application cannot supply both",
                where=name,
                rule="every input and output of the application is a buffer of its own",
                remedy="leave out --no-inputs-allocation and --no-outputs-allocation",
            )
