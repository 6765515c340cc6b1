"""`atonc deploy` on copies of ST's applications: to a linked image, again, and killed at random points.

DIR holds complete copies `STM32N6-GettingStarted-ObjectDetection`, `-ImageClassification` and `-PoseEstimation`;
models come from the corpus. The copies that are worked on lie in WORK, always at the same place, because images
contain the paths of their sources. The parts can run one after the other, as time allows:

    NAME        model to image, and a second run
    NAME-kill   SIGKILL to a run and everything that it started, --kills times in a row, at random times; behind each,
                every file is as before or as after its step, or a commit is pending that the next run ends
    NAME-end    the run behind that: are its bytes those of the undisturbed one?

The page is of what was found so far.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atonc.delivery.deploy import journal
from atonc.delivery.deploy.deployment import STATE
from benchmarks.shared import tables
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import KILLS, ONE_FETCHED, SEED, WORK, WRITE, Report, argument
from benchmarks.shared.kept import read, write

GROUP = "deployment"
ARGUMENTS = (
    ONE_FETCHED,
    WORK.but(required=True),
    argument("--parts", nargs="*", default=(), metavar="PART"),
    KILLS.but(default=20),
    argument("--longest", type=float, default=1e9, metavar="S", help="no run is killed later than this"),
    SEED,
    WRITE,
)

BOARD = "STM32N6570-DK"
APPLICATIONS = {
    "ObjectDetection": (
        "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite",
        "general: {model_type: st_yolo_x, model_path: MODEL}\ndataset: {class_names: [person]}\n"
        "postprocessing: {confidence_thresh: 0.6, NMS_thresh: 0.5, max_detection_boxes: 10}\n",
    ),
    "ImageClassification": (
        "mobilenet_v1_0.25_96_tfs_int8.tflite",
        "general: {model_path: MODEL}\nuse_case: image_classification\n"
        "dataset: {class_names: [daisy, dandelion, roses, sunflowers, tulips]}\n",
    ),
    "PoseEstimation": (
        "st_movenet_lightning_heatmaps_192_int8_pc.tflite",
        "general: {model_type: heatmaps_spe, model_path: MODEL}\ndataset: {keypoints: 13}\n"
        "postprocessing: {confidence_thresh: 0.4}\n",
    ),
}
COMMON = """operation_mode: deployment
preprocessing: {resizing: {aspect_ratio: crop}, color_mode: rgb}
deployment: {c_project_path: PROJECT, hardware_setup: {serie: STM32N6, board: STM32N6570-DK}}
"""
HEAD = """# Deployment into ST's applications

Others used the machine too (times are long and mean little); Debian's arm-none-eabi-gcc, `--no-verify`. Each
application as published, one command from model to image.

"""


@dataclass(frozen=True)
class Place:
    project: Path
    config: Path

    def command(self) -> list[str]:
        return [sys.executable, "-m", "atonc", "deploy", str(self.config), "--no-verify", "--json", "-j", "4"]

    def run(self, *more: str) -> tuple[list[dict[str, Any]], float]:
        started = time.perf_counter()
        done = subprocess.run([*self.command(), *more], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
        return json.loads(done.stdout)["steps"], time.perf_counter() - started

    def fresh(self, source: Path) -> None:
        """As published."""
        shutil.rmtree(self.project, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(self.project)], check=True)

    def killed(self, seconds: float) -> bool:
        """Whether it was still at work."""
        process = subprocess.Popen(
            self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(seconds)
            return False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True


def digests(project: Path, whole: bool = True) -> dict[str, str]:
    """Hashes the project without objects and locks; not `whole`: without the libraries, which take most of the time."""
    skipped = {"build-atonc", "build.lock", "building", *(() if whole else ("STM32Cube_FW_N6", "Middlewares"))}
    found = {}
    for path in sorted(project.rglob("*")):
        if path.is_file() and not skipped.intersection(path.parts):
            found[str(path.relative_to(project))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def place_for(work: Path, name: str) -> Place:
    model, text = APPLICATIONS[name]
    project, config = work / name, work / f"{name}.yaml"
    filled = (text + COMMON).replace("MODEL", str(corpus_dir() / "models" / model)).replace("PROJECT", str(project))
    config.write_text(filled)
    return Place(project, config)


def undisturbed(place: Place, source: Path, name: str) -> dict[str, Any]:
    place.fresh(source)
    before = digests(place.project, whole=False)
    steps, seconds = place.run()
    wanted = digests(place.project)
    again, _ = place.run()
    changed = [step["step"] for step in again if step.get("changed")]
    same = not changed and digests(place.project) == wanted
    image = place.project / "firmware" / BOARD / "Project.elf"
    times = ", ".join(f"{step['step']} {step['seconds']:.0f}" for step in steps)
    cells = (name, APPLICATIONS[name][0], f"{image.stat().st_size:,}", times, "nothing changes" if same else "CHANGES")
    return {
        "row": tables.row(cells) + "\n",
        "wanted": wanted,
        "before": before,
        "seconds": seconds,
    }


def kill(place: Place, source: Path, known: dict[str, Any], kills: int, longest: float, seed: int) -> dict[str, Any]:
    place.fresh(source)
    chance, hit = random.Random(seed), Counter[str]()
    deaths = between = pending = 0
    limit = min(longest, known["seconds"])
    while deaths < kills:
        if deaths == kills // 4:  # the others come behind the compilation, which takes longest
            place.run("--until", "generate")
        if not place.killed(chance.uniform(0.0, limit)):
            break
        deaths += 1
        waits = journal.is_interrupted(place.project)
        pending += waits
        hit["behind the compilation" if (place.project / STATE).is_file() else "before its end"] += 1
        strange = [] if waits else strangers(place.project, known)
        between += bool(strange)
        print(f"kill {deaths}: {'pending' if waits else strange[:3]}", file=sys.stderr, flush=True)
    places = ", ".join(f"{count} {place}" for place, count in hit.items())
    return {
        "line": f"- {deaths} kills in a row, seed {seed} ({places}): {pending} left a commit pending, {between} left a "
        "file that is neither before nor after its step.\n"
    }


def strangers(project: Path, known: dict[str, Any]) -> list[str]:
    before, after = known["before"], known["wanted"]
    now = digests(project, whole=False)
    return [n for n, d in now.items() if d not in (before.get(n), after.get(n)) and journal.FOLDER not in n]


def end(place: Place, known: dict[str, Any]) -> dict[str, Any]:
    place.run()
    same = digests(place.project) == known["wanted"]
    bytes_ = "the same bytes" if same else "OTHER BYTES"
    return {"line": f"- The run behind them ends with {bytes_} in all {len(known['wanted']):,} files.\n"}


def table(work: Path) -> str:
    text = HEAD + "| application | model | ELF bytes | seconds | second run |\n|---|---|---|---|---|\n"
    text += "".join(found["row"] for name in APPLICATIONS if (found := load(work, name)))
    for name in APPLICATIONS:
        lines = [found["line"] for part in ("kill", "end") if (found := load(work, f"{name}-{part}"))]
        text += f"\n## Killed: {name}\n\n{''.join(lines)}" if lines else ""
    return text


def load(work: Path, part: str) -> dict[str, Any]:
    return read(work / f"{part}.json")


def run_part(part: str, arguments: argparse.Namespace) -> dict[str, Any]:
    name, _, what = part.partition("-")
    place = place_for(arguments.work, name)
    source = arguments.fetched.resolve() / f"STM32N6-GettingStarted-{name}"
    if not what:
        return undisturbed(place, source, name)
    known = load(arguments.work, name)
    return (
        kill(place, source, known, arguments.kills, arguments.longest, arguments.seed)
        if what == "kill"
        else end(place, known)
    )


def run(arguments: argparse.Namespace) -> Report:
    arguments.work.mkdir(parents=True, exist_ok=True)
    for part in arguments.parts:
        found = run_part(part, arguments)
        write(arguments.work / f"{part}.json", found)
        print(found.get("row", found.get("line")), flush=True)
    text = table(arguments.work)
    return Report(text, failed="CHANGES" in text or "OTHER BYTES" in text)
