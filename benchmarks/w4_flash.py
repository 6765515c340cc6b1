"""What weights of 4 bits bring: flash, time and initialisation, packed for copies in RAM or read by the engines.

The first table takes files whose weights have 4 bits. The second makes such networks of int8 ones of ST's zoo: as many
of their weights as in the zoo's W4 file lose their four low bits, the largest tensors first, which says nothing of
accuracy, and all of time and flash.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from atonc.compiler.compile.compile_view import CompileView, analyze
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Array, Graph
from atonc.compiler.lower.facts import CONVOLUTIONS
from atonc.compiler.request.options import ALL_FREE, W4_STREAM, Options
from atonc.delivery.generate import generating
from atonc.insight.report.compile_text import copying_ms
from atonc.machine.emu.network import load
from atonc.machine.emu.tensors import io_shape
from atonc.machine.hw.four_bits import BITS, LEAST, MOST, FourBits
from atonc.machine.hw.safety.evidence.board import BoardEvidence
from atonc.machine.hw.safety.evidence.board_file import FORMAT, VERSION, evidence_row
from atonc.machine.hw.safety.evidence.streng import NARROW, NARROW_DEEP
from benchmarks.shared.corpus import model
from benchmarks.shared.declare import ONLY, WRITE, Report, argument

GROUP = "speed"
ARGUMENTS = (
    argument("files", nargs="*", type=Path, metavar="FILE", help="models with weights of 4 bits"),
    ONLY,
    WRITE,
)
PLAIN = Options(verify=False)
WAYS = {
    "as it is": PLAIN,
    "--resident": replace(PLAIN, resident=ALL_FREE),
    "w4-stream": replace(PLAIN, allow_unproven=(W4_STREAM,)),
    "w4-stream --resident": replace(PLAIN, allow_unproven=(W4_STREAM,), resident=ALL_FREE),
    "deep mode too": PLAIN,
}
AS_IT_IS, STREAM, DEEP = "as it is", "w4-stream", "deep mode too"


class ZooPair(NamedTuple):
    """Figures of ST's model zoo 4.1 (releases 4.0.0, STM32N6570-DK), W8 and W4."""

    file: str
    percent: float  # of the weights that have 4 bits
    flash_kib: tuple[float, float]
    ms: tuple[float, float]


ZOO = (
    ZooPair("ImageNet__mobilenet_v2_0.35_128_int8.tflite", 85.64, (1656.28, 962.22), (5.83, 4.05)),
    ZooPair("ImageNet__mobilenet_v2_1.0_224_int8.tflite", 48.7, (3812.11, 2988.05), (20.45, 18.21)),
    ZooPair("coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite", 83.16, (877.66, 519.06), (6.63, 6.33)),
    ZooPair("coco_2017_person__st_yolo_x_nano_320_0.33_0.25_int8.tflite", 59.47, (895.03, 638.67), (13.29, 11.82)),
    ZooPair("coco_2017_person__st_yolo_x_nano_480_1.0_0.25_3_int8.tflite", 55.23, (1173.25, 868.8), (35.8, 34.71)),
)
HEAD = f"""# Weights of 4 bits

Predicted by the calibrated model; no board has run any of it. `--resident` packs what stays in RAM and rests on nothing
that is unknown. `w4-stream` is `--allow-unproven w4-stream`: engines read {BITS} bits from flash as is assumed. *Deep
mode too* is what the evidence of a board would allow that answers `narrow-deep-1x1` likewise: no option asks for it.

## Files whose weights have 4 bits

*Saved*: bytes of flash against the program as it is, by half a byte for each value that lies packed. *Outputs*: of the
generated files on the emulator, which unpacks copies as the firmware does, against those of the program as it is.

| model | weights of 4 bits | way | flash bytes | packed | saved | RAM bytes | ms | initialisation ms | outputs |
|---|---:|---|---:|---:|---:|---:|---:|---:|---|
"""
ZOO_HEAD = """
## The zoo's W4 files

Their bytes are in no copy of the zoo that we have, so the networks are made of the W8 files. Zoo: measured by ST on its
board, W8 and W4; ours: predicted, as it is, with w4-stream, and with deep mode too. The largest layers are dense and
1x1: ours read them in deep mode, three weights to a word; forms without it take 24 channels at a time, and no published
one sums many of those.

| model | 4 bits | zoo KiB | ratio | our KiB | w4-stream | deep too | zoo ms | ratio | our ms | w4-stream | deep too |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def narrow(data: Array) -> bool:
    return bool(data.size and data.min() >= LEAST and data.max() <= MOST)


def weights(graph: Graph) -> Iterator[str]:
    """Constants that convolutions and dense layers weigh with."""
    for op in graph.ops:
        if op.kind in (*CONVOLUTIONS, "depthwise_conv"):
            tensor = graph.tensors[op.inputs[1]]
            if tensor.data is not None and tensor.dtype == "int8":
                yield tensor.name


def outputs(view: CompileView) -> list[Array]:
    with tempfile.TemporaryDirectory() as folder:
        generating.generate(view, Path(folder))
        emulated = load(Path(folder))
        rng = np.random.default_rng(1)
        for number, name in enumerate(view.compiled.graph.inputs):
            tensor, shape = view.compiled.graph.tensors[name], io_shape(emulated.inputs[number])
            values = rng.random(shape) if tensor.is_float else rng.integers(0, 128, shape)
            emulated.write_input(number, values.astype(tensor.dtype))
        for _ in emulated.run():
            pass
        return [emulated.read_output(number) for number in range(len(emulated.outputs))]


def compared(mine: list[Array], plain: list[Array]) -> str:
    if all(np.array_equal(a, b) for a, b in zip(mine, plain, strict=True)):
        return "the same"
    apart = max(float(np.abs(a.astype(float) - b.astype(float)).max()) for a, b in zip(mine, plain, strict=True))
    equal = np.mean([float((a == b).mean()) for a, b in zip(mine, plain, strict=True)])
    return f"{equal:.2%} equal, at most {apart:.4g} apart"


def rows(file: Path) -> Iterator[str]:
    graph = read(file)
    data = {name: graph.tensors[name].data for name in weights(graph)}
    small = sum(d.size for d in data.values() if d is not None and narrow(d))
    share = small / max(1, sum(d.size for d in data.values() if d is not None))
    plain: tuple[int, list[Array]] | None = None
    for way in WAYS:
        view = analyze(file, asked(way))
        memory, homes = view.memory, view.compiled.layout.placed.values()
        stored = [home.buffer for home in homes if not home.copy_of]
        packed = sum(2 * one.size_bytes if one.four_bits else one.half_bytes for one in stored)
        found = outputs(view)
        plain = plain or (memory.weights_bytes, found)
        saved = f"{(plain[0] - memory.weights_bytes) / (packed / 2):.3f}" if packed else "-"
        first = f"{copying_ms(view):.2f}" if memory.resident_bytes else "-"
        yield (
            f"| {file.name} | {small:,} ({share:.1%}) | {way} | {memory.weights_bytes:,} | {packed:,} | {saved} | "
            f"{memory.ram_bytes:,} | {view.compiled.cost.latency_ms:.2f} | {first} | {compared(found, plain[1])} |\n"
        )


def coarse(graph: Graph, percent: float) -> Graph:
    """With the largest weights in 4 bits, up to a share of all."""
    sizes = {name: graph.tensors[name].elements for name in weights(graph)}
    left, tensors = sum(sizes.values()) * percent / 100, dict(graph.tensors)
    for name in sorted(sizes, key=lambda one: (-sizes[one], one)):
        tensor = tensors[name]
        if sizes[name] > left * 1.02 or tensor.data is None or tensor.quant is None:
            continue
        left -= sizes[name]
        quant = replace(tensor.quant, scales=tensor.quant.scales * (1 << BITS))
        tensors[name] = replace(tensor, data=tensor.data >> BITS, quant=quant)
    return replace(graph, tensors=tensors)


def asked(way: str) -> Options:
    return replace(PLAIN, evidence=str(evidence_file())) if way == DEEP else WAYS[way]


@cache
def evidence_file() -> Path:
    """As a board would leave it that reads 4 bits in deep mode too."""
    form = FourBits(deep=True, confirmed=True)
    shown = BoardEvidence(frozenset({NARROW, NARROW_DEEP}), board=PLAIN.board, four_bits=form)
    file = Path(tempfile.mkdtemp(prefix="atonc-evidence-")) / "evidence.json"
    file.write_text(json.dumps({"format": FORMAT, "version": VERSION, **evidence_row(shown)}))
    return file


def zoo_row(pair: ZooPair) -> str:
    graph = coarse(read(model(pair.file)), pair.percent)
    found: list[Compiled] = [compile_graph(graph, asked(way)) for way in (AS_IT_IS, STREAM, DEEP)]
    kib = [one.layout.memory.weights_bytes / 1024 for one in found]
    ms = [one.cost.latency_ms for one in found]
    cells = []
    for figures in (pair.flash_kib, kib, pair.ms, ms):
        first, *others = figures
        cells += [f"{' > '.join(f'{one:.2f}' for one in figures)}", *(f"{one / first:.3f}" for one in others)]
    return f"| {pair.file} | {pair.percent:g} % | {' | '.join(cells)} |\n"


def run(arguments: argparse.Namespace) -> Report:
    text = HEAD
    for file in arguments.files:
        for line in rows(file):
            text += line
            print(line, end="", file=sys.stderr, flush=True)
    text += ZOO_HEAD
    for pair in ZOO:
        if not arguments.only or any(word in pair.file for word in arguments.only):
            text += zoo_row(pair)
            print(text.splitlines()[-1], file=sys.stderr, flush=True)
    return Report(text)
