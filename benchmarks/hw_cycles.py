"""How near is the hardware model to times measured on boards?

First table: whole networks compiled by ST whose compiled form is public, against the published or recorded time.
Second table: single epochs of a MobileNetV2 that the CPU drives, against the recorded table in the corpus
(`figures/epochs_n6.csv`). The recording was made with the ONNX form of the model, the program here is that of its
TFLite form by the same tool: epochs 1 to 4 and those behind 53 differ and are left out.

The folders hold the repositories as `owner+name[@commit]/path`. Every row has the band that reports would print around
the prediction (`atonc.machine.cost.band`); at least nine of ten measured times must lie inside. `--write` also
keeps hw_cycles.json, for the documents.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from atonc.machine.cost.band import PredictionBand, band_of
from atonc.machine.cost.network import StepCost, cpu_cost
from atonc.machine.emu.cpu import call_cost
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import NetworkStep, memory_of, plan_steps
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.doubts import LONG_TURNS, TURNS, doubts
from atonc.machine.hw.cycles.st_estimate import fast_library
from atonc.machine.hw.machine import Machine, stm32n6
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import FETCHED, WRITE, Report

GROUP = "time"
ARGUMENTS = (FETCHED, WRITE)

MEAN_GOAL, INSIDE_GOAL = 0.015, 0.9
FIRST_EPOCH, LAST_EPOCH = 5, 53
BLIND = "found after the model was made, not in the mean of 17"
NO_CONTROLLER = "program without, measurement with epoch controller"
FITTED, SEEN_LATER, APART = "fitted", "blind", "apart"  # fixed or supported a constant; saw none; says little
APPLICATION = "STMicroelectronics+STM32N6-GettingStarted-"
DIGITS = "andre1012345+STM32N6-digits-recognition"
BENCH = "SeongMin1000+N6_cusotm_validation"
BENCH_FOLDER = "Projects/STM32N6570-DK/Applications/NPU_Custom_Validation/X-CUBE-AI/App"
TURNED = "efficientnet_v2B1 240"
FYP, FYP_FOLDER, PLAYGROUND = "Foahh+fyp-firmware", "Networks/Src", "Foahh/fyp-playground, DK"
OSNET = (f"{APPLICATION}ReID", "d8412646", "Model/STM32N6570-DK/reid.c")
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
    kind: str = SEEN_LATER


CASES = (
    Case("hand_landmark", "2.1.0", "STMicroelectronics+x-cube-n6-ai-hand-landmarks", "1c2aeecb",
         "Model/hand_landmark.c", 20.52, "zoo 2.2.0", kind=FITTED),
    Case("blazeface 128", "2.2.0", "STMicroelectronics+x-cube-n6-ai-face-landmarks", "bc424814",
         "Model/face_detector.c", 5.09, "zoo 2.2.0"),
    Case("blazeface 128", "4.0.0", f"{APPLICATION}FaceDetection", "45faf185",
         "Model/STM32N6570-DK/network.c", 4.48, "zoo 4.0.0", kind=FITTED),
    Case("deeplab_v3 320", "2.0.0", f"{APPLICATION}SemanticSegmentation", "faee0849",
         "Model/network.c", 44.99, "zoo 2.0.0", kind=FITTED),
    Case("deeplab_v3 320", "2.1.0", f"{APPLICATION}SemanticSegmentation", "c7fcfc8f",
         "Model/STM32N6570-DK/network.c", 45.34, "zoo 2.2.0", kind=FITTED),
    Case("movenet heatmaps 192", "2.0.0", f"{APPLICATION}PoseEstimation", "fe4ca4c9",
         "Model/network.c", 18.44, "zoo 2.0.0", kind=FITTED),
    Case("efficientnet_v2B1 240", "2.0.0", f"{APPLICATION}ImageClassification", "609480f5",
         "Model/network.c", 73.89, "zoo 2.0.0", kind=FITTED),
    Case("efficientnet_v2B1 240", "2.2.0", DIGITS, "b01b9041",
         "Model/STM32N6570-DK/network.c", 70.91, "zoo 2.2.0", kind=FITTED),
    Case("efficientnet_v2B1 240", "3.0.0", DIGITS, "cf7cb1c",
         "Model/STM32N6570-DK/network.c", 86.55,
         "zoo 3.0.0, same bytes of weights; supports frame_turn, not in the mean of 17", counts=False, kind=FITTED),
    Case("efficientnet_v2B1 240", "4.0.0", DIGITS, "10c660d8",
         "Model/STM32N6570-DK/network.c", 44.0, "application README, whole ms", kind=FITTED),
    Case("ssdlite_mobilenetv3small 300", "4.0.0", "Estadio-do-Dragao-app+STM32N6-GettingStarted-ObjectDetection",
         "bb9a3bdc", "Model/STM32N6570-DK/network.c", 13.73, "zoo 4.0.0", kind=FITTED),
    Case("tiny_yolo_v2 224", "2.0.0", f"{APPLICATION}ObjectDetection", "bf726c2a",
         "Model/network.c", 30.67, "zoo 2.0.0"),
    Case("tiny_yolo_v2 224", "2.2.0", "svogl+STM32N6-GettingStarted-ObjectDetection", "90e75d05",
         "Model/NUCLEO-N657X0-Q/network.c", 30.68, "zoo 2.2.0"),
    Case("yolov8n pose 256", "2.0.0", "avnet-iotconnect+iotc-stm32-n6-demos", "61eae11e",
         "Projects/multi_pose_estimation/Model/network.c", 35.79, "zoo 2.0.0"),
    Case("kws_micronet_m (EC part)", "2.2.0", BENCH, "ac63c970",
         f"{BENCH_FOLDER}/kws.c", 1.0216, "board", controller_part=True, kind=FITTED),
    Case("mobilenet_v2 224 (EC part)", "2.2.0", *MOBILENET, 20.07, "board", controller_part=True, kind=FITTED),
    Case("yolov8n pose 256", "2.1.0", "ginodecock+fall-guard-pe", "108d27b8",
         "Model/network.c", 32.0, "application, whole ms"),
    Case("st_yolo_x_nano 480", "2.1.0", f"{APPLICATION}ObjectDetection", "d306ecb3",
         "Model/STM32N6570-DK/network.c", 32.40, "zoo, network of the same family"),
    Case("yolov8n seg 256", "2.0.0", "avnet-iotconnect+iotc-stm32-n6-demos", "61eae11e",
         "Projects/instance_segmentation/STM32N6/Model/network.c", 37.59, f"zoo 2.0.0; {BLIND}", counts=False),
    Case("yamnet 1024", "2.2.0", f"{APPLICATION}Audio", "",
         "Projects/X-CUBE-AI/models/network.c", 9.88, f"zoo 2.2.0; {BLIND}, {NO_CONTROLLER}", counts=False),
    Case("ssd_mobilenet_v2_fpnlite 192", "2.2.0", "willisk0612+nucleo-getting-started", "",
         "Appli/X-CUBE-AI/App/network.c", 13.50, f"zoo 2.2.0; {BLIND}, {NO_CONTROLLER}", counts=False),
    Case("mobilenetv2 re-id", "3.0.0", f"{APPLICATION}ReID", "d8412646", "Model/NUCLEO-N657X0-Q/reid.c",
         13.44, f"zoo 3.0.0, listed there as OSNet 1.0; {BLIND}", counts=False),
    Case("st_yolodv2milli 256", "4.0.0", FYP, "46391825", f"{FYP_FOLDER}/st_yolo_d_256_person.c",
         25.607, f"{PLAYGROUND}; {BLIND}", counts=False),
    Case("tinyissimoyolo_v8 320", "4.0.0", FYP, "46391825", f"{FYP_FOLDER}/tinyv8_320_person.c",
         18.695, f"{PLAYGROUND}; {BLIND}", counts=False),
    Case("st_yoloxn 480", "4.0.0", FYP, "46391825", f"{FYP_FOLDER}/st_yolo_x_480_person.c",
         35.721, f"{PLAYGROUND}; {BLIND}", counts=False),
    Case("yolo26n 320", "4.0.0", FYP, "46391825", f"{FYP_FOLDER}/yolo26_320_person.c",
         29.538, f"{PLAYGROUND}; CPU convolutions that nobody measured, not in the mean", counts=False, kind=APART),
    Case("transformer (quantized_model)", "2.2.0", "TitoNicolaDrugman+Transformer-NPU-STM32N6", "1b234288",
         "c_code/results/cloud/cloud_dd2QuantizedModel_C-code/network.c",
         42.38, "Developer Cloud; 66 CPU epochs, most kinds unmeasured, not in the mean", counts=False, kind=APART),
)  # fmt: skip
EXCLUDED = """## Rows that are not used, and why

* zoo 3.0.0, *OSNet 1.0* (1440 KiB of RAM, 2375.33 KiB of weights, 13.44 ms) and *OSNet 0.25* (480 KiB, 404.94 KiB,
  3.53 ms) are not OSNet: RAM is that of the rows of MobileNetV2 1.0 and 0.35 beside them, and 2375.33 KiB are, to the
  byte, the weights of the MobileNetV2 program that ST ships for re-identification. The first is its time (the row
  *mobilenetv2 re-id* above; 13.37 ms, used before, is of another compilation). No program is public for the second.
* zoo 4.0.0, *OSNet 0.25* (158.27 KiB, 7.22 ms): the public program has as many weights, but is of release 3.0.0. The
  model gives that one {osnet} ms, {osnet_turns} of them turns between short frames. This is no contradiction: release
  3.0.0 multiplies by channel in frames of one to four elements, 4.0.0 does not. Of efficientnet_v2B1 the programs of
  2.0.0, 2.2.0, 3.0.0 and 4.0.0 have {turns} ms of turns, and took {measured} ms. So `frame_turn` stays: without it the
  first three would be {without} ms.
* single layers (`figures/bench_n6.csv`) and other models that people measured: the programs are not public, and ours
  are others.
* nine epochs of a LiSenNet in a profiler log, all of them scattered copies: the program is not public. Counted by hand
  from the beats in the log they come out at -7.3 to +4.9 %, seven of nine within the 3 % of plain NPU time.
"""


@cache
def steps_of(path: Path) -> tuple[NetworkStep, ...]:
    network = network_of(path)
    return tuple(plan_steps(network, memory_of(network)))


@cache
def network_of(path: Path) -> CompiledNetwork:
    return read_network(path)


def find(repository: str, commit: str, path: str, roots: tuple[Path, ...]) -> Path | None:
    places = (root / f"{repository}{at}" / path for root in roots for at in (f"@{commit}", ""))
    return next((place for place in places if place.is_file()), None)


@dataclass(frozen=True)
class Prediction:
    steps: tuple[StepCost, ...]

    @property
    def ms(self) -> float:
        return sum(step.milliseconds for step in self.steps)

    @property
    def cpu_ms(self) -> float:
        return sum(step.milliseconds for step in self.steps if step.cpu_ms)

    @property
    def guessed_ms(self) -> float:
        return sum(step.milliseconds for step in self.steps if not step.known)

    @property
    def band(self) -> PredictionBand:
        return band_of((step.cpu_ms > 0, step) for step in self.steps)


def predict(case: Case, path: Path, machine: Machine | None = None) -> Prediction:
    costs, machine = [], machine or stm32n6()
    for step in steps_of(path):
        if step.epoch is not None:
            costs.append(npu_cost(step, hardware.CONTROLLER, machine=machine))
        elif not case.controller_part:
            costs.append(calls_cost(step, machine, path))
    return Prediction(tuple(costs))


def npu_cost(
    step: NetworkStep, programmed_by: str, warm_cache: bool = False, machine: Machine | None = None
) -> StepCost:
    machine, epoch = machine or stm32n6(), step.epoch
    assert epoch is not None
    found = hardware.epoch_cycles(epoch, machine, programmed_by, warm_cache)
    doubted = doubts(epoch, machine, programmed_by, found)
    ms = machine.milliseconds(found.cycles)
    return StepCost(0, "", found.cycles, found.bound_by, ms, 0.0, "", parts=found.detail, doubts=doubted)


def calls_cost(step: NetworkStep, machine: Machine, path: Path) -> StepCost:
    calls = [call_cost(call.name, list(call.args)) for call in step.calls]
    fast = fast_library(network_of(path).atonn_version)
    return cpu_cost([one.with_4() if fast else one for one in calls], machine, "")


Row = tuple[Case, Prediction | None]


def network_rows(roots: tuple[Path, ...]) -> Iterator[Row]:
    for case in CASES:
        path = find(case.repository, case.commit, case.path, roots)
        yield case, predict(case, path) if path is not None else None


def network_data(rows: list[Row]) -> list[dict[str, Any]]:
    """What the documents show; rows whose program is not there have no prediction."""
    found = []
    for case, ours in rows:
        data: dict[str, Any] = {"network": case.name, "tool": case.tool, "measured_ms": case.measured_ms}
        data |= {"source": case.source, "kind": case.kind, "counts": case.counts}
        if ours is not None:
            low, high = ours.band.around(ours.ms)
            figures = {"ms": ours.ms, "low_ms": low, "high_ms": high, "cpu_ms": ours.cpu_ms}
            data |= {key: round(value, 4) for key, value in (figures | {"guessed_ms": ours.guessed_ms}).items()}
            data |= {"inside": ours.band.holds(ours.ms, case.measured_ms), "band": str(ours.band)}
        found.append(data)
    return found


def network_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    times = "CPU ms | guessed ms | predicted ms | may be | measured ms"
    yield f"| network | tool | {times} | error | inside | row | measured by |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---|---|---|"
    for row in rows:
        name, end = f"| {row['network']} | {row['tool']} |", f"{row['kind']} | {row['source']} |"
        if "ms" not in row:
            yield f"{name} not fetched | | | | {row['measured_ms']} | | | {end}"
            continue
        span = f"{row['low_ms']:.2f} to {row['high_ms']:.2f}"
        times = f"{row['cpu_ms']:.2f} | {row['guessed_ms']:.2f} | {row['ms']:.2f} | {span} | {row['measured_ms']}"
        yield f"{name} {times} | {row['ms'] / row['measured_ms'] - 1:+.1%} | {'yes' if row['inside'] else 'no'} | {end}"
    errors = [abs(row["ms"] / row["measured_ms"] - 1) for row in rows if row["counts"] and "ms" in row]
    mean, worst = sum(errors) / max(1, len(errors)), max(errors, default=0)
    yield ""
    known = f"{len(errors)} rows that were known when the model was made"
    yield f"Mean error of the {known}: {mean:.2%}, worst {worst:.1%}."


def excluded(rows: list[Row], roots: tuple[Path, ...]) -> str:
    """With what turns between short frames take in the programs of a network, and what it would take without them."""
    told: dict[str, list[float]] = {"turns": [], "measured": [], "without": []}
    for case, ours in rows:
        if case.name == TURNED and ours is not None:
            turns = turns_ms(ours)
            for key, ms in (("turns", turns), ("measured", case.measured_ms), ("without", ours.ms - turns)):
                told[key].append(ms)
    told["without"].pop()
    path = find(*OSNET, roots)
    osnet = Prediction(tuple(npu_cost(s, hardware.CONTROLLER) for s in steps_of(path) if s.epoch)) if path else None
    said = {key: ", ".join(f"{ms:.2f}" for ms in values) for key, values in told.items()}
    said |= {"osnet": f"{osnet.ms:.2f}", "osnet_turns": f"{turns_ms(osnet):.2f}"} if osnet else {}
    return EXCLUDED.format(**({"osnet": "?", "osnet_turns": "?"} | said))


def turns_ms(ours: Prediction) -> float:
    return sum(v for s in ours.steps for k, v in s.doubts.items() if k in (TURNS, LONG_TURNS)) / 1e6


def mean_error(rows: list[Row]) -> float:
    errors = [abs(o.ms / c.measured_ms - 1) for c, o in rows if o is not None and c.counts]
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
    inside: bool  # the band around the prediction

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def epoch_rows(roots: tuple[Path, ...]) -> list[EpochRow]:
    path = find(*MOBILENET, roots)
    table = corpus_dir() / "figures" / "epochs_n6.csv"
    if path is None or not table.is_file():
        return []
    epochs = {step.number: step for step in steps_of(path) if step.epoch is not None}
    machine, rows = stm32n6(), []
    with table.open(newline="") as file:
        recorded = [r for r in csv.DictReader(file) if "Cube MX/mobilenet_v2_224" in r["source"]]
    for row in recorded:
        number = int(row["block"].rpartition("_")[2])
        if not FIRST_EPOCH <= number <= LAST_EPOCH:
            continue
        epoch = epochs[number].epoch
        assert epoch is not None
        ours = npu_cost(epochs[number], hardware.NOBODY, warm_cache=True)
        cached = any(e.cache_allocate and e.cacheable for e in epoch.readers().values())
        programming = hardware.programming_cycles(epoch, machine, hardware.CPU) / machine.npu_cycles(1)
        spent = float(row["cycles_pre"]) + float(row["cycles_post"])
        measured = machine.npu_cycles(float(row["cycles_npu"]))
        inside = band_of([(False, ours)]).holds(ours.cycles, measured)
        rows.append(EpochRow(number, ours.bound_by, cached, measured, ours.cycles, spent, programming, inside))
    return rows


def epoch_summary(rows: list[EpochRow]) -> list[str]:
    lines = []
    for title, chosen in (
        ("without cached streams", [r for r in rows if not r.cached]),
        ("with cached streams (warm cache)", [r for r in rows if r.cached]),
    ):
        errors = [abs(r.error) for r in chosen]
        mean, worst = sum(errors) / max(1, len(errors)), max(errors, default=0)
        middle = median(errors) if errors else 0.0
        lines.append(f"{len(chosen)} epochs {title}: median error {middle:.2%}, mean {mean:.2%}, worst {worst:.2%}")
    spent, ours = sum(r.programming_measured for r in rows), sum(r.programming_predicted for r in rows)
    lines.append(f"programming by the CPU, {len(rows)} epochs: {ours:,.0f} CPU cycles predicted, {spent:,.0f} measured")
    return lines


def epoch_table(rows: list[EpochRow]) -> Iterator[str]:
    yield from (f"* {line}" for line in epoch_summary(rows))
    yield ""
    yield "| epoch | bound by | measured | predicted | error | inside |"
    yield "|---:|---|---:|---:|---:|---|"
    for r in rows:
        inside = "yes" if r.inside else "no"
        yield f"| {r.number} | {r.bound_by} | {r.measured:,.0f} | {r.predicted:,.0f} | {r.error:+.2%} | {inside} |"


def summary(data: list[dict[str, Any]], epochs: list[EpochRow]) -> dict[str, Any]:
    """How many measured times lie inside the band."""
    priced = [row for row in data if "ms" in row]
    later = [row for row in priced if row["kind"] != FITTED]
    return {
        "networks": len(priced), "networks_inside": sum(row["inside"] for row in priced),
        "unfitted": len(later), "unfitted_inside": sum(row["inside"] for row in later),
        "epochs": len(epochs), "epochs_inside": sum(r.inside for r in epochs),
    }  # fmt: skip


def inside_share(found: dict[str, Any]) -> float:
    return (found["networks_inside"] + found["epochs_inside"]) / max(1, found["networks"] + found["epochs"])


def report(rows: list[Row], epochs: list[EpochRow], apart: str, seconds: float) -> str:
    data = network_data(rows)
    found = summary(data, epochs)
    inside = (
        f"Inside the band: {found['networks_inside']} of {found['networks']} networks ({found['unfitted_inside']} of "
        f"{found['unfitted']} that fixed no constant), {found['epochs_inside']} of {found['epochs']} single epochs."
    )
    lines = ["# The hardware model against boards", ""]
    lines += [f"{seconds:.0f} s.", ""]
    lines += ["Not blind: the model's form and constants were fitted with most of these networks in view, and the band"]
    lines += ["was made with all of them in view.", "", inside, "", *network_table(data), ""]
    lines += [apart, "## Epochs of MobileNetV2 224, NPU cycles", ""]
    lines += [*epoch_table(epochs)] if epochs else ["The compiled network or the corpus is not there."]
    return "\n".join(lines) + "\n"


def document(rows: list[Row], epochs: list[EpochRow]) -> dict[str, Any]:
    data = network_data(rows)
    return {"networks": data, "epochs": epoch_summary(epochs)[:2], "summary": summary(data, epochs)}


def run(arguments: argparse.Namespace) -> Report:
    started, roots = time.perf_counter(), tuple(arguments.fetched)
    rows = list(network_rows(roots))
    epochs = epoch_rows(roots)
    text = report(rows, epochs, excluded(rows, roots), time.perf_counter() - started)
    inside = inside_share(summary(network_data(rows), epochs))
    missed = mean_error(rows) > MEAN_GOAL or inside < INSIDE_GOAL
    return Report(text, failed=missed, data=document(rows, epochs))
