"""Compare the hardware model with times measured on boards.

First table: whole networks compiled by ST whose compiled form is public, against the published or recorded time.
Second table: single epochs of a MobileNetV2 that the CPU drives, against the recorded table in the corpus
(`figures/epochs_n6.csv`). The recording was made with the ONNX form of the model, the program here is that of its
TFLite form by the same tool: epochs 1 to 4 and those behind 53 differ and are left out.

    python benchmarks/check_hw_cycles.py --fetched DIR [DIR ...] [--write]

The folders hold the repositories as `owner+name[@commit]/path`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from fetched import corpus_dir

from atonc.emu.cpu import call_cost
from atonc.emu.files.network_c import read_network
from atonc.emu.network import Step, memory_of, plan_steps
from atonc.hw.cycles import EpochCost, NetworkCycles, hardware, network_cycles
from atonc.hw.machine import stm32n6

RESULTS = Path(__file__).parent / "results" / "hw_cycles.md"
MEASURED = "2026-11-15, 2-core x86-64 Linux"
MEAN_GOAL = 0.015
FIRST_EPOCH, LAST_EPOCH = 5, 53
BLIND = "seen only after the model was fixed, not in the mean"
NO_CONTROLLER = "compiled for the CPU, figure with epoch controller"
APPLICATION = "STMicroelectronics+STM32N6-GettingStarted-"
DIGITS = "andre1012345+STM32N6-digits-recognition"
BENCH = "SeongMin1000+N6_cusotm_validation"
BENCH_FOLDER = "Projects/STM32N6570-DK/Applications/NPU_Custom_Validation/X-CUBE-AI/App"
MOBILENET = (BENCH, "ac63c970", f"{BENCH_FOLDER}/img.c")


@dataclass(frozen=True)
class Case:
    """A compiled network and the time that somebody measured for it."""

    name: str
    tool: str
    repository: str
    commit: str
    path: str
    measured_ms: float
    source: str
    controller_part: bool = False  # the time is that of the epoch controller's part alone
    counts: bool = True  # in the mean


CASES = (
    Case("hand_landmark", "2.1.0", "STMicroelectronics+x-cube-n6-ai-hand-landmarks", "1c2aeecb",
         "Model/hand_landmark.c", 20.52, "zoo 2.2.0"),
    Case("blazeface 128", "2.2.0", "STMicroelectronics+x-cube-n6-ai-face-landmarks", "bc424814",
         "Model/face_detector.c", 5.09, "zoo 2.2.0"),
    Case("blazeface 128", "4.0.0", f"{APPLICATION}FaceDetection", "45faf185",
         "Model/STM32N6570-DK/network.c", 4.48, "zoo 4.0.0"),
    Case("deeplab_v3 320", "2.0.0", f"{APPLICATION}SemanticSegmentation", "faee0849",
         "Model/network.c", 44.99, "zoo 2.0.0"),
    Case("deeplab_v3 320", "2.1.0", f"{APPLICATION}SemanticSegmentation", "c7fcfc8f",
         "Model/STM32N6570-DK/network.c", 45.34, "zoo 2.2.0"),
    Case("movenet heatmaps 192", "2.0.0", f"{APPLICATION}PoseEstimation", "fe4ca4c9",
         "Model/network.c", 18.44, "zoo 2.0.0"),
    Case("efficientnet_v2B1 240", "2.0.0", f"{APPLICATION}ImageClassification", "609480f5",
         "Model/network.c", 73.89, "zoo 2.0.0"),
    Case("efficientnet_v2B1 240", "2.2.0", DIGITS, "b01b9041",
         "Model/STM32N6570-DK/network.c", 70.91, "zoo 2.2.0"),
    Case("efficientnet_v2B1 240", "4.0.0", DIGITS, "10c660d8",
         "Model/STM32N6570-DK/network.c", 44.0, "application README, whole ms"),
    Case("ssdlite_mobilenetv3small 300", "4.0.0", "Estadio-do-Dragao-app+STM32N6-GettingStarted-ObjectDetection",
         "bb9a3bdc", "Model/STM32N6570-DK/network.c", 13.73, "zoo 4.0.0"),
    Case("tiny_yolo_v2 224", "2.0.0", f"{APPLICATION}ObjectDetection", "bf726c2a",
         "Model/network.c", 30.67, "zoo 2.0.0"),
    Case("tiny_yolo_v2 224", "2.2.0", "svogl+STM32N6-GettingStarted-ObjectDetection", "90e75d05",
         "Model/NUCLEO-N657X0-Q/network.c", 30.68, "zoo 2.2.0"),
    Case("yolov8n pose 256", "2.0.0", "avnet-iotconnect+iotc-stm32-n6-demos", "61eae11e",
         "Projects/multi_pose_estimation/Model/network.c", 35.79, "zoo 2.0.0"),
    Case("kws_micronet_m (EC part)", "2.2.0", BENCH, "ac63c970",
         f"{BENCH_FOLDER}/kws.c", 1.0216, "board", controller_part=True),
    Case("mobilenet_v2 224 (EC part)", "2.2.0", *MOBILENET, 20.07, "board", controller_part=True),
    Case("yolov8n pose 256", "2.1.0", "ginodecock+fall-guard-pe", "108d27b8",
         "Model/network.c", 32.0, "application, whole ms"),
    Case("st_yolo_x_nano 480", "2.1.0", f"{APPLICATION}ObjectDetection", "d306ecb3",
         "Model/STM32N6570-DK/network.c", 32.40, "zoo, sibling network"),
    Case("yolov8n seg 256", "2.0.0", "avnet-iotconnect+iotc-stm32-n6-demos", "61eae11e",
         "Projects/instance_segmentation/STM32N6/Model/network.c", 37.59, f"zoo 2.0.0; {BLIND}", counts=False),
    Case("yamnet 1024", "2.2.0", f"{APPLICATION}Audio", "",
         "Projects/X-CUBE-AI/models/network.c", 9.88, f"zoo 2.2.0; {BLIND}, {NO_CONTROLLER}", counts=False),
    Case("ssd_mobilenet_v2_fpnlite 192", "2.2.0", "willisk0612+nucleo-getting-started", "",
         "Appli/X-CUBE-AI/App/network.c", 13.50, f"zoo 2.2.0; {BLIND}, {NO_CONTROLLER}", counts=False),
    Case("mobilenetv2 re-id", "3.0.0", f"{APPLICATION}ReID", "d8412646", "Model/NUCLEO-N657X0-Q/reid.c",
         13.37, "zoo; another compilation (weights differ), not in the mean", counts=False),
    Case("transformer (quantized_model)", "2.2.0", "TitoNicolaDrugman+Transformer-NPU-STM32N6", "1b234288",
         "c_code/results/cloud/cloud_dd2QuantizedModel_C-code/network.c",
         42.38, "Developer Cloud; 66 CPU epochs, most kinds unmeasured, not in the mean", counts=False),
)  # fmt: skip


@cache
def steps_of(path: Path) -> tuple[Step, ...]:
    network = read_network(path)
    return tuple(plan_steps(network, memory_of(network)))


def find(repository: str, commit: str, path: str, roots: tuple[Path, ...]) -> Path | None:
    places = (root / f"{repository}{at}" / path for root in roots for at in (f"@{commit}", ""))
    return next((place for place in places if place.is_file()), None)


def predict(case: Case, path: Path) -> NetworkCycles:
    costs = []
    for step in steps_of(path):
        if step.epoch is not None:
            cycles = hardware.epoch_cycles(step.epoch)
            costs.append(EpochCost(step.number, "npu", cycles.cycles, 0.0, cycles.bound_by))
        elif not case.controller_part:
            parts = [call_cost(call.name, list(call.args)) for call in step.calls]
            npu, cpu = sum(p.npu_cycles for p in parts), sum(p.cpu_cycles for p in parts)
            costs.append(EpochCost(step.number, step.kind, npu, cpu, "", all(p.known for p in parts)))
    return network_cycles(costs)


def network_rows(roots: tuple[Path, ...]) -> Iterator[tuple[Case, NetworkCycles | None]]:
    for case in CASES:
        path = find(case.repository, case.commit, case.path, roots)
        yield case, predict(case, path) if path is not None else None


def network_table(rows: list[tuple[Case, NetworkCycles | None]]) -> Iterator[str]:
    yield "| network | tool | NPU ms | CPU ms | guessed ms | predicted ms | measured ms | error | measured by |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---|"
    errors = []
    for case, ours in rows:
        if ours is None:
            yield f"| {case.name} | {case.tool} | not fetched | | | | {case.measured_ms} | | {case.source} |"
            continue
        error = ours.milliseconds / case.measured_ms - 1
        if case.counts:
            errors.append(abs(error))
        parts = f"{ours.npu_milliseconds:.2f} | {ours.cpu_milliseconds:.2f} | {ours.guessed_milliseconds:.2f}"
        times = f"{ours.milliseconds:.2f} | {case.measured_ms} | {error:+.1%}"
        yield f"| {case.name} | {case.tool} | {parts} | {times} | {case.source} |"
    mean = sum(errors) / max(1, len(errors))
    yield f"| **mean error of {len(errors)}** | | | | | | | **{mean:.2%}** | worst {max(errors, default=0):.1%} |"


def mean_error(rows: list[tuple[Case, NetworkCycles | None]]) -> float:
    errors = [abs(o.milliseconds / c.measured_ms - 1) for c, o in rows if o is not None and c.counts]
    return sum(errors) / len(errors) if errors else 1.0


@dataclass(frozen=True)
class EpochRow:
    """A recorded epoch and ours, in NPU cycles; programming before it in CPU cycles."""

    number: int
    bound_by: str
    cached: bool
    measured: float
    predicted: float
    programming_measured: float
    programming_predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def epoch_rows(roots: tuple[Path, ...]) -> list[EpochRow]:
    path = find(*MOBILENET, roots)
    table = corpus_dir() / "figures" / "epochs_n6.csv"
    if path is None or not table.is_file():
        return []
    epochs = {step.number: step.epoch for step in steps_of(path) if step.epoch is not None}
    machine, rows = stm32n6(), []
    with table.open(newline="") as file:
        recorded = [r for r in csv.DictReader(file) if "Cube MX/mobilenet_v2_224" in r["source"]]
    for row in recorded:
        number = int(row["block"].rpartition("_")[2])
        if not FIRST_EPOCH <= number <= LAST_EPOCH:
            continue
        epoch = epochs[number]
        ours = hardware.epoch_cycles(epoch, machine, hardware.NOBODY, warm_cache=True)
        cached = any(e.cache_allocate and e.cacheable for e in epoch.readers().values())
        programming = hardware.programming_cycles(epoch, machine, hardware.CPU) / machine.npu_cycles(1)
        spent = float(row["cycles_pre"]) + float(row["cycles_post"])
        measured = machine.npu_cycles(float(row["cycles_npu"]))
        rows.append(EpochRow(number, ours.bound_by, cached, measured, ours.cycles, spent, programming))
    return rows


def epoch_table(rows: list[EpochRow]) -> Iterator[str]:
    for title, chosen in (
        ("without cached streams", [r for r in rows if not r.cached]),
        ("with cached streams (warm cache)", [r for r in rows if r.cached]),
    ):
        errors = [abs(r.error) for r in chosen]
        mean, worst = sum(errors) / max(1, len(errors)), max(errors, default=0)
        middle = median(errors) if errors else 0.0
        yield f"* {len(chosen)} epochs {title}: median error {middle:.2%}, mean {mean:.2%}, worst {worst:.2%}"
    spent, ours = sum(r.programming_measured for r in rows), sum(r.programming_predicted for r in rows)
    yield f"* programming by the CPU, {len(rows)} epochs: {ours:,.0f} CPU cycles predicted, {spent:,.0f} measured"
    yield ""
    yield "| epoch | bound by | measured | predicted | error |"
    yield "|---:|---|---:|---:|---:|"
    for r in rows:
        yield f"| {r.number} | {r.bound_by} | {r.measured:,.0f} | {r.predicted:,.0f} | {r.error:+.2%} |"


def report(rows: list[tuple[Case, NetworkCycles | None]], epochs: list[EpochRow], seconds: float) -> str:
    lines = ["# The hardware model against boards", ""]
    lines += [f"{MEASURED}; `python benchmarks/check_hw_cycles.py`, {seconds:.0f} s.", ""]
    lines += ["Not blind: the model's form and constants were fitted with most of these networks in view.", ""]
    lines += [*network_table(rows), "", "## Epochs of MobileNetV2 224, NPU cycles", ""]
    lines += [*epoch_table(epochs)] if epochs else ["The compiled network or the corpus is not there."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--fetched", nargs="+", type=Path, required=True, metavar="DIR")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    started, roots = time.perf_counter(), tuple(options.fetched)
    rows = list(network_rows(roots))
    text = report(rows, epoch_rows(roots), time.perf_counter() - started)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text)
    print(text, end="")
    return 0 if mean_error(rows) <= MEAN_GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
