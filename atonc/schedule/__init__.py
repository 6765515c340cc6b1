"""Tasks become epochs: `fuse`, `order`, then `pack`; `assign` gives unit numbers, `check` proves the result.

`PASSES` names what can be switched off (`--schedule-without`). Results are the same bit for bit, only slower; without
borders or lanes a layer may get another form, which rounds its sums at another place, within its expected error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from atonc.schedule.order import order
from atonc.schedule.pack import packed
from atonc.schedule.pack_ops import Network, pack_ops
from atonc.schedule.types import EpochOfTasks, Schedule, Step, Work

FUSE, POOLS = "fuse", "pools"
PASSES = {  # name -> what it does
    FUSE: "an operator behind another one in the same epoch",
    "borders": "windows on features of one byte, on a copy with its zero point around it",
    "lanes": "one convolution on several chains of units side by side",
    "pack": "tasks of different operators side by side",
    POOLS: "windows of a pooling behind the convolution that writes the picture; a part of fuse",
    "stripe": "rows of several convolutions in turn, where the tensors between them have no room on the chip",
}
ROUNDS_ELSEWHERE = ("borders", "lanes")  # of these: what they cost decides between forms that round at other places

PREFETCH, TABLES = "prefetch", "tables"
UNPROVEN = {  # name -> what it does; off unless asked for (`--schedule-with`): no published program shows the form
    PREFETCH: "idle engines copy weights of later layers into free RAM, beside convolutions that read the flash",
    "attention": "products of two activations as convolutions whose kernels are read from RAM",
    TABLES: "a table of coefficients stays in its unit for later epochs that want the same",
}


def schedule(works: Iterable[Work], network: Network | None = None, without: Collection[str] = ()) -> Schedule:
    """`network`: of all buffers, without which nothing moves. `without`: names of passes that are left out."""
    steps: list[Step] = []
    for work in order(works):
        steps += [work.call] if work.call else []
        epochs = network.epochs(work) if network else packed(work.groups)
        steps += [EpochOfTasks(tasks, (work.op,) * len(tasks)) for tasks in epochs]
    found = Schedule(tuple(steps))
    return found if network is None or "pack" in without else pack_ops(found, network)
