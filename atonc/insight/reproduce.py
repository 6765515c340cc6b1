"""How to get the same result again: the command, the versions, the hashes, the clocks."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from atonc import __version__
from atonc.costs import NetworkCost
from atonc.errors import plain
from atonc.hw.board_file import split_choice
from atonc.options import Options

_TEXT_FLAGS = {
    "numerics": "--numerics",
    "prefer": "--prefer",
    "silicon": "--silicon",
    "input_type": "--input-data-type",
    "output_type": "--output-data-type",
    "inputs_channel_position": "--inputs-ch-position",
    "outputs_channel_position": "--outputs-ch-position",
}
_SWITCHES = {
    "inputs_allocation": "--no-inputs-allocation",
    "outputs_allocation": "--no-outputs-allocation",
    "epoch_controller": "--no-epoch-controller",
    "allow_float": "--allow-float",
    "allow_unproven": "--allow-unproven",
}


def command(model: str, options: Options, name: str = "network") -> str:
    """The command line that asks for the same; files are named without their folders."""
    return shlex.join(["atonc", "generate", model, *_flags(options, name)])


def _flags(options: Options, name: str) -> Iterator[str]:
    default = Options()
    if name != "network":
        yield from ("-n", name)
    if options.board != default.board:
        yield from ("--board", _without_folder(options.board))
    for field, flag in _TEXT_FLAGS.items():
        if getattr(options, field) != getattr(default, field):
            yield from (flag, getattr(options, field))
    for field, flag in _SWITCHES.items():
        if getattr(options, field) != getattr(default, field):
            yield flag
    for field, flag in (("npu_mhz", "--npu-mhz"), ("cpu_mhz", "--cpu-mhz"), ("flash_mbps", "--flash-mbps")):
        if getattr(options, field):
            yield from (flag, f"{getattr(options, field):g}")
    if options.relocatable:
        yield from ("-r", *(() if options.secure else ("no-secure",)))
    if options.mpool:
        yield from ("--mpool", Path(options.mpool).name)
    if options.cut_outputs:
        yield from ("--cut-output-tensors", ",".join(options.cut_outputs))
    if options.fixed_shapes:
        yield from ("--fix-parametric-shapes", ",".join(f"{k}={v}" for k, v in options.fixed_shapes.items()))
    for place, nodes in (("cpu", options.on_cpu), ("npu", options.on_npu)):
        for node in nodes:
            yield from ("--on", place, node)


def _board_file(board: str) -> Path | None:
    """The file of a board that the user brings."""
    name = split_choice(board)[1]
    return Path(name) if name.endswith(".toml") else None


def _without_folder(board: str) -> str:
    own = _board_file(board)
    return board if own is None else board.removesuffix(split_choice(board)[1]) + own.name


def block(model: Path, options: Options, name: str, cost: NetworkCost) -> dict[str, str]:
    found = {
        "command": command(plain(model.name), options, name),
        "atonc": __version__,
        "model sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "clocks": f"NPU {cost.npu_mhz:g} MHz, CPU {cost.cpu_mhz:g} MHz",
        "latency": "predicted by the hardware model; not measured on a board",
    }
    if own := _board_file(options.board):
        found["board sha256"] = hashlib.sha256(own.read_bytes()).hexdigest()
    if options.mpool:
        found["pools sha256"] = hashlib.sha256(Path(options.mpool).read_bytes()).hexdigest()
    return found
