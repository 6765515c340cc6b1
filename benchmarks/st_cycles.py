"""How near is our copy of ST's estimate to what ST's compiler wrote down?

First table: every `*c_info*.json` under the given folders for which a network of the same compilation is found (same
epochs, all buffers at the same addresses). Per epoch: compute cycles and `max_cycles` within 1 %.
Second table: networks without such a file whose C file gives sums per epoch-controller program (tools from 3.0.0 on).
Equal compilations are counted once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.c_info import CInfo, InfoNode, mismatch, read_c_info
from atonc.machine.emu.files.network_c import EPOCH_LIST, read_network
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import memory_of, plan_steps
from atonc.machine.hw.cycles import EpochCycles, st_estimate
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import PoolTiming
from benchmarks.shared.declare import FETCHED, WRITE, Report

GROUP = "st"
ARGUMENTS = (FETCHED, WRITE)

NEAR = 0.01


@dataclass
class Score:
    """How many epochs of one compilation agree."""

    name: str
    tool: str
    driven_by: str
    epochs: int = 0
    compute: int = 0
    cycles: int = 0
    worst: float = 0.0
    misses: list[str] = field(default_factory=list)

    def add(self, node: InfoNode, ours: EpochCycles) -> None:
        self.epochs += 1
        compute = near(ours.compute, node.compute_cycles)
        cycles = near(ours.cycles, node.max_cycles)
        self.compute += compute
        self.cycles += cycles
        self.worst = max(self.worst, abs(error(ours.cycles, node.max_cycles)))
        if not (compute and cycles):
            figures = f"compute {ours.compute} / {node.compute_cycles}, max {ours.cycles} / {node.max_cycles}"
            self.misses.append(f"{self.name}, epoch {node.epoch}: {figures} (ours / ST)")


@dataclass(frozen=True)
class BlobSum:
    """One epoch-controller program: sums over its epochs, ours against those in the C file."""

    name: str
    tool: str
    compute: float  # relative errors
    cycles: float


def error(ours: float, theirs: float) -> float:
    return ours / theirs - 1 if theirs else float(ours != theirs)


def near(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= NEAR * theirs


def networks(folder: Path) -> Iterator[CompiledNetwork]:
    """Networks of a folder that can be read together with their own blobs, if there is anything to compare with."""
    with_json = any(folder.rglob("*c_info*.json"))
    for path in sorted(folder.rglob("*.c")):
        text = path.read_text(errors="replace")
        if EPOCH_LIST in text and (with_json or "estimated_tot_cycles" in text):
            try:
                yield read_network(path)
            except AtoncError:
                continue  # its header was not published, or is of another compilation


def epochs_of(network: CompiledNetwork) -> dict[int, Epoch]:
    steps = plan_steps(network, memory_of(network))
    return {s.number: s.epoch for s in steps if s.epoch is not None and not s.epoch.empty}


def pools_of(network: CompiledNetwork) -> tuple[PoolTiming, ...]:
    return tuple(PoolTiming(p.name, p.base, p.size_bytes, p.byte_width, p.freq_ratio) for p in network.pools)


def same_compilation(info: CInfo, network: CompiledNetwork) -> bool:
    bases = {pool.id: pool.address for pool in info.pools}
    places = {(b.name, base + b.offset) for b in info.buffers if (base := bases.get(b.pool)) is not None}
    tables = (*network.inputs, *network.outputs, *network.internals)
    ours = {(b.name, b.address) for b in tables if not b.is_user_allocated}
    return mismatch(info, network) is None and bool(ours) and ours <= places


def score(info: CInfo, network: CompiledNetwork, name: str) -> Score:
    by = "EC" if network.blobs else "CPU"
    result = Score(name, network.atonn_version.split("-g")[0], by)
    runs = st_estimate.counts_runs(network.atonn_version)
    pools = pools_of(network)
    for number, epoch in epochs_of(network).items():
        node = info.by_epoch.get(number)
        if node is not None:
            result.add(node, st_estimate.epoch_cycles(epoch, pools, runs))
    return result


def scores(folder: Path, found: list[CompiledNetwork], seen: set[object]) -> Iterator[Score]:
    """Each JSON with the nearest network that is the same compilation."""
    for path in sorted(folder.rglob("*c_info*.json")):
        try:
            info = read_c_info(path)
        except AtoncError:
            continue
        key = tuple((n.epoch, n.compute_cycles, n.max_cycles) for n in info.nodes), len(info.buffers)
        if key in seen or not any(node.max_cycles for node in info.nodes):
            continue
        for network in sorted(found, key=lambda n: -shared_parts(n.c_file, path)):
            if same_compilation(info, network):
                seen.add(key)
                yield score(info, network, f"{folder.name}: {network.stem}")
                break


def shared_parts(one: Path, other: Path) -> int:
    return sum(a == b for a, b in zip(one.parts, other.parts, strict=False))


def blob_sums(folder: Path, found: list[CompiledNetwork], seen: set[object]) -> Iterator[BlobSum]:
    for network in found:
        estimates = tuple(block.estimated_tot_cycles for block in network.blocks)
        if estimates in seen or not any(estimates):
            continue
        seen.add(estimates)
        pools, runs = pools_of(network), st_estimate.counts_runs(network.atonn_version)
        epochs = epochs_of(network)
        for block in network.blocks:
            last = block.last_epoch_num
            if block.blob is None or block.epoch_num is None or last is None or not block.estimated_tot_cycles:
                continue
            inside = [epoch for number, epoch in epochs.items() if block.epoch_num <= number <= last]
            ours = [st_estimate.epoch_cycles(epoch, pools, runs) for epoch in inside]
            compute = error(sum(c.compute for c in ours), block.estimated_npu_cycles or 0)
            cycles = error(sum(c.cycles for c in ours), block.estimated_tot_cycles)
            name = f"{folder.name}: {network.stem}, {block.blob.removesuffix('_address')}"
            yield BlobSum(name, network.atonn_version.split("-g")[0], compute, cycles)


def epoch_table(rows: list[Score]) -> Iterator[str]:
    yield "| compilation | tool | driven by | epochs | compute | max_cycles | worst |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for row in rows:
        figures = f"{row.epochs} | {row.compute} | {row.cycles} | {row.worst:.2%}"
        yield f"| {row.name} | {row.tool} | {row.driven_by} | {figures} |"
    total, compute, cycles = (sum(getattr(r, key) for r in rows) for key in ("epochs", "compute", "cycles"))
    share = f"**{compute} ({compute / max(1, total):.2%})** | **{cycles} ({cycles / max(1, total):.2%})**"
    yield f"| **all {len(rows)}** | | | **{total}** | {share} | |"


def blob_table(rows: list[BlobSum]) -> Iterator[str]:
    compute = sum(abs(row.compute) <= NEAR for row in rows)
    cycles = sum(abs(row.cycles) <= NEAR for row in rows)
    yield f"{len(rows)} programs: compute within 1 % for {compute}, total for {cycles}. The others:"
    yield ""
    yield "| program | tool | compute | total |"
    yield "|---|---|---:|---:|"
    for row in rows:
        if abs(row.compute) > NEAR or abs(row.cycles) > NEAR:
            yield f"| {row.name} | {row.tool} | {row.compute:+.1%} | {row.cycles:+.1%} |"


def report(rows: list[Score], sums: list[BlobSum], seconds: float) -> str:
    lines = ["# Our copy of ST's estimate against ST's own figures", ""]
    lines += [f"{seconds:.0f} s.", ""]
    lines += ["Epochs within 1 % of `power_estimates` in `c_info.json`:", "", *epoch_table(rows), ""]
    misses = [text for row in rows for text in row.misses]
    lines += ["Not within 1 %:" if misses else "All within 1 %.", *[f"- {text}" for text in misses], ""]
    lines += ["## Sums per program, where only the C file has them", "", *blob_table(sums)]
    return "\n".join(lines) + "\n"


def folders(roots: Iterable[Path]) -> list[Path]:
    return [folder for root in roots for folder in sorted(root.iterdir()) if folder.is_dir()]


def run(arguments: argparse.Namespace) -> Report:
    started, seen = time.perf_counter(), set[object]()
    rows: list[Score] = []
    sums: list[BlobSum] = []
    for folder in folders(arguments.fetched):
        found = list(networks(folder))
        rows += [row for row in scores(folder, found, seen) if row.epochs]
        sums += blob_sums(folder, found, seen)
    text = report(rows, sums, time.perf_counter() - started)
    epochs = sum(row.epochs for row in rows)
    good = sum(r.compute for r in rows) >= 0.98 * epochs and sum(r.cycles for r in rows) >= 0.95 * epochs
    return Report(text, failed=not (rows and good))
