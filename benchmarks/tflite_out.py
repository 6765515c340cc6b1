"""Does a file of `--layout tflite` give the bytes of the whole network, and is a damaged one refused?

Each model three ways: compiled as always and run on the emulator; as one TFLite file, its custom operator on the
virtual board, what is left with LiteRT; and damaged.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.layouts.every import layout_files, with_layout
from atonc.delivery.layouts.tflite import LAYOUT
from atonc.delivery.layouts.tflite_model import CODE, read_model
from atonc.delivery.trials.tflite_running import TfliteRunner
from atonc.insight.runs import runs
from atonc.insight.runs.run_options import RunOptions
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, SEED, WRITE, Report
from benchmarks.shared.tables import in_a_cell, row, short

GROUP = "board"
ARGUMENTS = (MODEL_FILES, SEED, WRITE)
DAMAGED = 200
MODELS = (
    "hello_world_int8.tflite",
    "split_concat.tflite",
    "micro_speech_quantized.tflite",
    "kws_ref_model.tflite",
    "ad01_int8.tflite",
    "person_detect.tflite",
    "vww_96_int8.tflite",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "fomo_face_detection.tflite",
    "face_detection_front_128_integer_quant.tflite",
    "fall_guard_st_ssd_mobilenet_v1_256v2.tflite",
)
INTRODUCTION = f"""# TFLite files out

Each model as it is and as `--layout tflite` writes it: one custom operator with the image inside. The outputs of the
file (operator on the virtual board through our loader, the rest with LiteRT) against those of the network that is
compiled without the layout, on the emulator, byte by byte, for one input. LiteRT's loader, which verifies the
flatbuffer, is asked for the file: *accepted* means that the custom operator is all that it misses. Then {DAMAGED}
damaged copies of each file: bits turned, bytes replaced, ends cut off, pieces left out; every one must be refused.
"""
HEADER = (
    "| model | operators | in the file | model, bytes | file, bytes | compared | different | LiteRT | damaged | "
    "refused | seconds |\n|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|"
)


@dataclass(frozen=True)
class Tried:
    """What became of one model."""

    model: Path
    operators: int
    left: int
    size: int
    compared: int
    different: int
    accepted: bool
    refused: int
    seconds: float

    @property
    def good(self) -> bool:
        return not self.different and self.accepted and self.refused == DAMAGED

    def text(self) -> str:
        sizes = (f"{self.model.stat().st_size:,}", f"{self.size:,}", f"{self.compared:,}", self.different)
        said = "accepted" if self.accepted else "refused"
        what = (short(self.model.name), self.operators, self.left, *sizes, said, DAMAGED, self.refused)
        return row((*what, f"{self.seconds:.0f}"))


def run(arguments: argparse.Namespace) -> Report:
    found, lines = list[Tried](), list[str]()
    for model in chosen(arguments, MODELS):
        try:
            with tempfile.TemporaryDirectory() as work:
                found.append(_one(model, Path(work), arguments.seed))
            lines.append(found[-1].text())
        except AtoncError as error:
            lines.append(f"| {short(model.name)} | {in_a_cell(error.what)} |" + " |" * 9)
        print(lines[-1], file=sys.stderr, flush=True)
    good = sum(one.good for one in found)
    refused = sum(one.refused for one in found)
    said = f"{good} of {len(lines)} models: all bytes equal, accepted by LiteRT; {refused:,} damaged files refused.\n"
    return Report("\n".join([INTRODUCTION, said, HEADER, *lines, ""]), failed=good != len(lines))


def _one(model: Path, work: Path, seed: int) -> Tried:
    started = time.perf_counter()
    view = generating.analyze(model, with_layout(Options(verify=False), LAYOUT))
    data = layout_files(LAYOUT, view)["network.tflite"]
    file = work / "network.tflite"
    file.write_bytes(data)
    generating.generate(generating.analyze(model, Options(verify=False)), work / "whole")
    ran = runs.run(RunOptions(directory=work / "whole", seed=seed))
    whole = ran.outputs
    with TfliteRunner(file) as runner:  # names of C are others than those of the model: inputs in their order
        names = [info.name for info in runner.edges.inputs]
        outputs = runner.run(dict(zip(names, ran.inputs.values(), strict=True)))
    pairs = [(a.tobytes(), b.tobytes()) for a, b in zip(outputs.values(), whole.values(), strict=True)]
    return Tried(
        model,
        len(read_model(model.read_bytes()).operators),
        len(read_model(data).operators),
        len(data),
        compared=sum(len(right) for _, right in pairs),
        different=sum(sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairs),
        accepted=_accepted(data),
        refused=sum(_refused(work / "damaged.tflite", spoiled) for spoiled in damaged(data, seed)),
        seconds=time.perf_counter() - started,
    )


def _accepted(data: bytes) -> bool:
    from ai_edge_litert.interpreter import Interpreter

    try:
        Interpreter(model_content=data).allocate_tensors()
    except (RuntimeError, ValueError) as error:
        return str(error).startswith(f"Encountered unresolved custom op: {CODE}")
    return False


def damaged(data: bytes, seed: int) -> Iterator[bytes]:
    """Bits turned, bytes replaced, an end cut off, a piece left out."""
    chance = random.Random(seed)
    for turn in range(DAMAGED):
        spoiled, at = bytearray(data), chance.randrange(len(data))
        if turn % 4 == 0:
            spoiled[at] ^= 1 << chance.randrange(8)
        elif turn % 4 == 1:
            spoiled[at : at + 4] = bytes(byte ^ chance.randrange(1, 256) for byte in spoiled[at : at + 4])
        elif turn % 4 == 2:
            del spoiled[at:]
        else:
            del spoiled[at : at + chance.randrange(1, 64)]
        yield bytes(spoiled)


def _refused(file: Path, data: bytes) -> bool:
    """By an error of ours: anything else ends the benchmark."""
    file.write_bytes(data)
    try:
        TfliteRunner(file).close()
    except AtoncError:
        return True
    return False
