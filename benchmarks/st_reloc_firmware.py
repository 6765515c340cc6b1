"""ST's validation firmwares for relocatable images (STM32N6570-DK, IAR), unchanged on the virtual board.

They install images of ours of corpus models, split and not, copied and in place, and run them for ST's client: every
output byte against `atonc run`. Then an image that ST's tool made (harryhua-ai+ne301) in both, against its TFLite
model. DIR holds the repositories and what shared/st_session.py names.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from atonc.delivery.reloc.build import RelocOptions, build
from atonc.insight.report.compile_text import counts
from atonc.insight.runs import runs
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import asked_for, corpus_dir
from benchmarks.shared.declare import ONE_FETCHED, ONLY, SAMPLES, WRITE, Report
from benchmarks.shared.st_session import RELOC_FIRMWARES, Answer, session
from benchmarks.shared.tables import short

GROUP = "board"
ARGUMENTS = (ONE_FETCHED, SAMPLES.but(default=2), ONLY, WRITE)

MODELS = (
    "ad01_int8.tflite",
    "kws_ref_model.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "fomo_face_detection.tflite",
)
MODES = ("copy", "xip")
RELEASE = "1.1.1"  # of the runtime in these firmwares
IMAGE, PARAMS = 0x7100_0000, 0x7180_0000
NE301, NE301_SKIP = "harryhua-ai+ne301/bin/ne301_Model_pkg.bin", 0x1000
NE301_MODEL = "harryhua-ai+ne301/Model/weights/yolov8n_256_quant_pc_uf_od_coco-person-st.tflite"
BOX_ROWS = 4
LIMIT_S = 60.0
INTRODUCTION = """# ST's firmware for relocatable images on the virtual board

`stm32n6570-dk-validation-reloc-copy.elf` and `-xip.elf` as ST
published them (IAR, protocol 3.1, LL_ATON 1.1.1), not a byte changed. Our images are written to the virtual flash at
0x71000000, parameters of split ones at 0x71800000; the firmware finds, installs and runs them; ST's own client sends
random inputs and fetches the outputs, which are compared with `atonc run`, byte by byte. Emulated, as in
[st_firmware.md](st_firmware.md).

The machine was under heavy other load, so seconds are several times what an idle machine takes. Boot
includes the installation; a sample includes its bytes on the wire.
"""
HEADER = (
    "| model | NPU epochs | CPU steps | firmware | image | samples | bytes compared | different | boot, s | "
    "a sample, s |\n|---|---:|---:|---|---|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Row:
    model: str
    npu: int
    cpu: int
    mode: str
    image: str
    samples: int
    compared: int
    different: int
    boot_s: float
    seconds: float

    def text(self) -> str:
        what = f"{short(self.model)} | {self.npu} | {self.cpu} | {self.mode} | {self.image} | {self.samples}"
        each = self.seconds / self.samples
        return f"| {what} | {self.compared:,} | {self.different} | {self.boot_s:.0f} | {each:.1f} |"


def run(arguments: argparse.Namespace) -> Report:
    rows: list[Row] = []
    failures: list[str] = []
    for name in (name for name in MODELS if asked_for(arguments.only, name)):
        with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
            try:
                for row in _model(arguments.fetched, name, Path(temporary), arguments.samples):
                    rows.append(row)
                    print(row.text(), flush=True)
            except AtoncError as error:
                failures.append(f"{name}: {error}")
                print(failures[-1], flush=True)
    lines = _ne301(arguments.fetched, failures) if asked_for(arguments.only, "ne301") else []
    page = [INTRODUCTION, HEADER, *(row.text() for row in rows), "", *(f"Failed: {f}\n" for f in failures), *lines]
    return Report("\n".join(page) + "\n", failed=bool(failures) or any(row.different for row in rows))


# ----------------------------------------------------------------------------------------------------- images of ours


def _model(fetched: Path, name: str, work: Path, samples: int) -> Iterator[Row]:
    view = generating.analyze(corpus_dir() / "models" / name, Options(verify=False, relocatable=True))
    generating.generate(view, work / "network")
    steps = counts(view.compiled.program.steps)
    inputs, expected = _emulated(work / "network", samples)
    for split in (False, True):
        flash = _flash(work, split)
        for mode in MODES:
            with session(fetched, firmware(mode), flash) as board:
                answer = board.run(inputs)
            compared, different = _compare(answer, expected)
            kind = "split" if split else "one file"
            boot, seconds = board.boot_s, answer.seconds
            yield Row(name, steps["npu"], steps["cpu"], mode, kind, samples, compared, different, boot, seconds)


def firmware(mode: str) -> str:
    return f"{RELOC_FIRMWARES}/stm32n6570-dk-validation-reloc-{mode}.elf"


def _flash(work: Path, split: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as temporary:
        options = RelocOptions(split=split, runtime=RELEASE)
        built = build(building.find_toolchain(), work / "network", options, Path(temporary))
    image, params = work / "rel.bin", work / "rel_params.bin"
    image.write_bytes(built.image.data)
    params.write_bytes(built.params)
    return [f"{image}@{IMAGE:#x}", *([f"{params}@{PARAMS:#x}"] if split else [])]


def _emulated(folder: Path, samples: int) -> tuple[list[NDArray[Any]], list[list[bytes]]]:
    """Random inputs, stacked, and for each sample the bytes of every output as `atonc run` has them."""
    given, outputs = [], []
    for seed in range(samples):
        options = runs.RunOptions(folder, seed=seed)
        net = runs.load(options)
        inputs = runs.choose_inputs(net, options)
        result = runs.execute(net, inputs, options)
        given.append([inputs[info.name] for info in net.inputs])
        outputs.append([result.outputs[info.name].tobytes() for info in net.outputs])
    return [np.stack(arrays) for arrays in zip(*given, strict=True)], outputs


def _compare(answer: Answer, expected: list[list[bytes]]) -> tuple[int, int]:
    compared = different = 0
    for sample, outputs in enumerate(expected):
        for found, wanted in zip(answer.outputs, outputs, strict=True):
            got, want = (np.frombuffer(side, np.uint8) for side in (found[sample].tobytes(), wanted))
            compared += want.size
            different += want.size if got.size != want.size else int((got != want).sum())
    return compared, different


# ----------------------------------------------------------------------------------------------------- an image of ST's


def _ne301(fetched: Path, failures: list[str]) -> list[str]:
    """The same picture of noise, copied and in place."""
    picture = np.random.default_rng(1).integers(0, 256, (1, 256, 256, 3), dtype=np.uint8)
    flash, found = [f"{fetched / NE301}@{IMAGE:#x}+{NE301_SKIP:#x}"], {}
    for mode in MODES:
        with session(fetched, firmware(mode), flash) as board:
            found[mode] = board.run([picture])
        if found[mode].processor_s > LIMIT_S:
            failures.append(f"ne301, {mode}: {found[mode].processor_s:.0f} s an inference, more than {LIMIT_S:.0f}")
    copied, in_place = (found[mode].outputs[0] for mode in MODES)
    different = int((copied.view(np.uint8) != in_place.view(np.uint8)).sum())
    if different:
        failures.append(f"ne301: {different} bytes differ between copy and xip")
    mean, correlations = _against_tflite(fetched / NE301_MODEL, picture, copied)
    rows = ", ".join(f"{value:.4f}" for value in correlations)
    times = ", ".join(f"{mode} {found[mode].processor_s:.0f} s of processor time" for mode in MODES)
    return [
        "An image of ST's tool (`harryhua-ai/ne301`, YOLOv8n 256, vector instructions inside), a picture of noise:",
        f"copied and in place {copied.nbytes:,} output bytes, {different} differ; one inference: {times} (input of "
        f"{picture.nbytes:,} bytes included). Against LiteRT of the TFLite model of that name (taken as its source, no "
        f"recording exists): mean difference {mean:.4f}, correlation of the four box rows {rows}.",
    ]


def _against_tflite(model: Path, picture: NDArray[np.uint8], found: NDArray[Any]) -> tuple[float, list[float]]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(model))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], picture)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).reshape(found.shape)[0]
    rows = [float(np.corrcoef(found[0][k], expected[k])[0, 1]) for k in range(BOX_ROWS)]
    return float(np.abs(found[0] - expected).mean()), rows
