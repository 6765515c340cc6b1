"""Networks compiled by ST, unchanged, as Arm code on the virtual board with our runtime: every output byte against
`atonc run`.

    python benchmarks/board_networks.py --fetched DIR [--only TEXT] [--out FILE] [--runtime DIR] [--polling]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from atonc.app import boarding
from atonc.app.boarding import Rig
from atonc.emu import network as emulator
from atonc.errors import AtoncError
from atonc.firmware import image as firmware
from atonc.firmware.image import Runtime

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fetched import Compilation, compilations

HEADER = (
    "| network | outputs | bytes | different | NPU cycles | CPU instructions | seconds |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def main() -> int:
    arguments = _arguments()
    runtime = boarding.choose_runtime(arguments.runtime, arguments.polling)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        common = firmware.compile_runtime(runtime, work / "runtime")
        for one in compilations(arguments.fetched):
            if arguments.only in one.title and one.network_c and one.verified_pair and _together(one):
                rows.append(_row(one, runtime, common, work / f"{len(rows)}"))
                print(rows[-1], flush=True)
    if arguments.out:
        arguments.out.write_text(_page(rows, arguments.label or runtime.label))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetched", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--runtime", type=Path)
    parser.add_argument("--label", default="")
    parser.add_argument("--polling", action="store_true")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


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
            f"`python benchmarks/board_networks.py`. Runtime: {label}. The published C files unchanged, compiled for "
            "Cortex-M33; one random input each, every output byte compared with the emulator (`atonc run`).",
            "",
            HEADER,
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
