"""The passes of the schedule, one line each: options, their help, checks and docs follow from it.

That a pass is off by default and that nobody has seen on hardware what it makes are two things. Results are the same
bit for bit with and without a pass; those that round elsewhere may give a layer another form, which rounds its sums at
another place, within its expected error.
"""

from __future__ import annotations

from collections.abc import Collection

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Pass:
    """`verb`: the function of this folder, in a file of its name, that takes a schedule and gives one. Passes that look
    at works or forms have none; who makes those asks for them by name."""

    name: str
    what: str
    default: bool = True  # on unless `--schedule-without` names it; otherwise off unless `--schedule-with` does
    seen: bool = True  # published programs have what it makes; otherwise `--silicon seen` refuses it
    argument: str = ""  # where they have its parts only: the one of `docs/silicon.md` that it rests on
    rounds_elsewhere: bool = False  # what it costs decides between forms that round at other places
    verb: str = ""


# of weights in RAM (`--resident`), which are no pass: what was seen of them
KERNELS_IN_RAM = "15 ST programs of one owner read kernels from the NPU's RAM, none with a recorded result"
FUSE, MANY_WRITERS, ONE_PASS, POOLS = "fuse", "many-writers", "one-pass", "pools"
PREFETCH, TABLES = "prefetch", "tables"
ATTENTION, ENGINE_KERNELS = "attention", "engine-kernels"
ALL = (  # those with a verb in the order in which they run
    Pass("borders", "explicit padding: a convolution reads a copy with zero points around it", rounds_elsewhere=True),
    Pass(FUSE, "operator fusion: an operator behind another one in the same epoch"),
    Pass("lanes", "parallel chains: one convolution on several chains of units", rounds_elsewhere=True),
    Pass(ONE_PASS, "16-bit layers in one pass, with as many bits as sums have", argument="S9", rounds_elsewhere=True),
    Pass("pack", "packing: work of different operators in one epoch", verb="pack_ops"),
    Pass(POOLS, "pooling behind the convolution that writes its input; part of fuse"),
    Pass("stripe", "patch-based inference, where tensors between convolutions do not fit on the chip"),
    Pass(ATTENTION, "products of two activations as convolutions, whose kernels the CPU packs in RAM", argument="S11"),
    Pass(PREFETCH, "idle stream engines copy weights of later layers into free RAM", default=False, seen=False),
    Pass(ENGINE_KERNELS, "stream engines instead of the CPU pack the kernels of `attention`", False, False),
    Pass(TABLES, "coefficients stay in their unit for later epochs that need the same", False, False),
    Pass(
        MANY_WRITERS,
        "three or more chains that write interleaved bytes of one buffer",
        default=False,
        seen=False,
        argument="S10",
        rounds_elsewhere=True,
    ),
)
PASSES = {one.name: one for one in ALL if one.default}  # what can be switched off
ON_REQUEST = {one.name: one for one in ALL if not one.default}


def unused(without: Collection[str], asked: Collection[str]) -> tuple[str, ...]:
    """Names of the passes that a compilation does without."""
    return tuple(one.name for one in ALL if (one.name in without if one.default else one.name not in asked))


def unseen(asked: Collection[str]) -> list[str]:
    return [name for name in asked if name in ON_REQUEST and not ON_REQUEST[name].seen]


def resting_on(asked: Collection[str], arguments: Collection[str]) -> list[str]:
    """Those of the passes that rest on one of these arguments."""
    return [name for name in asked if name in ON_REQUEST and ON_REQUEST[name].argument in arguments]


def help_without() -> str:
    return f"passes of the schedule to leave out, separated by commas: {','.join(PASSES)}"


def help_with() -> str:
    listed = (f"{p.name} ({p.what}{'' if p.seen else '; no ST program has it'})" for p in ON_REQUEST.values())
    return f"passes that are off by default, separated by commas: {', '.join(listed)}"
