"""Networks compiled by ST, unchanged, as Arm code on the virtual board with our runtime: every output byte against
`atonc run`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.image import Runtime
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import Rig
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu import network as emulator
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import LABEL, ONE_FETCHED, ONLY, RUNTIME, WRITE, Report, argument
from benchmarks.shared.fetched import Compilation, compilations

GROUP = "board"
ARGUMENTS = (ONE_FETCHED, ONLY, RUNTIME, LABEL, argument("--polling", action="store_true"), WRITE)

HEADER = (
    "| network | outputs | bytes | different | NPU cycles | CPU instructions | seconds |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def run(arguments: argparse.Namespace) -> Report:
    runtime = boarding.choose_runtime(arguments.runtime, arguments.polling)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        common = firmware.compile_runtime(runtime, work / "runtime")
        for one in compilations(arguments.fetched):
            if asked_for(arguments.only, one.title) and one.network_c and one.verified_pair and _together(one):
                rows.append(_row(one, runtime, common, work / f"{len(rows)}"))
                print(rows[-1], flush=True)
    return Report(_page(rows, arguments.label or runtime.label))




def _together(one: Compilation) -> bool:
    """The C file includes its blobs from its own folder."""
    return one.network_c is not None and (one.ecblobs is None or one.ecblobs.parent == one.network_c.parent)


def _row(one: Compilation, runtime: Runtime, common: list[Path], work: Path) -> str:
    assert one.network_c is not None
    try:
        net = emulator.load(one.network_c.parent, one.network_c.stem, one.weights[:1] or None, one.ecblobs)
        image = firmware.network_in(one.network_c.parent, one.network_c.stem, one.weights[:1] or None)
        rig = Rig(firmware.build_firmware([image], runtime, work, common), [image], data_cache=False)
        started = time.perf_counter()
        random = np.random.default_rng(1)
        inputs = [random.integers(0, 256, buffer.size_bytes).astype(np.uint8) for buffer in net.inputs]
        found = rig.run(inputs)
        for buffer, value in zip(net.inputs, inputs, strict=True):
            net.memory.write(buffer.address, value)
        for _ in net.run():
            pass
        pairs = [(a, net.memory.read(b.address, b.size_bytes)) for a, b in zip(found.outputs, net.outputs, strict=True)]
    except AtoncError as error:
        return f"| {one.title} | {error.what[:160].replace('|', '/')} | | | | | |"
    total, wrong = sum(a.size for a, _ in pairs), sum(int((a != b).sum()) for a, b in pairs)
    seconds = time.perf_counter() - started
    return (
        f"| {one.title} | {len(pairs)} | {total:,} | {wrong} | {found.npu_cycles:,} | {found.instructions:,} | "
        f"{seconds:.1f} |"
    )


def _page(rows: list[str], label: str) -> str:
    return "\n".join(
        [
            "# Networks compiled by ST on the virtual board",
            "",
            f"Runtime: {label}. The published C files unchanged, compiled for "
            "Cortex-M33; one random input each, every output byte compared with the emulator (`atonc run`).",
            "",
            HEADER,
            *rows,
            "",
        ]
    )
