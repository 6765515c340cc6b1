"""Does our patch do what ST's `external_memory_mgt.py` does to copies of both STM32H747I-DISCO applications?

DIR holds `STMicroelectronics+stm32ai-modelzoo-services`. Every case starts from the published files. ST's script
runs unchanged, its reader of models replaced by the shape of the case.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import re
import shutil
import sys
import tempfile
import types
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from atonc.delivery.deploy import journal
from atonc.delivery.deploy.h747 import INTERFACE_H, MAIN_C, MAIN_H, plan_patch, read_project
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.declare import ONE_FETCHED, WRITE, Report

GROUP = "deployment"
ARGUMENTS = (ONE_FETCHED, WRITE)

SERVICES = "STMicroelectronics+stm32ai-modelzoo-services"
APPLICATIONS = ("image_classification", "object_detection")
FILES = (MAIN_H, MAIN_C, INTERFACE_H)
AXIRAM = 415_000
SIZES = {"QVGA": (224, 224), "VGA": (416, 416), "above VGA": (656, 656)}
POOLS = {  # name -> used bytes; the input is in the first
    "all fit": {"heap_overlay_pool": 20_000},
    "pictures do not": {"heap_overlay_pool": 380_000},
    "two memories": {"AXIRAM": 300_000, "SDRAM": 1_200_000},
    "input in the larger": {"SDRAM": 900_000, "AXIRAM": 100_000},
}
WHY = {
    "grey": "ST counts one byte a pixel, the applications declare two (`RGB_565_BPP`): the buffers may not fit",
    "input": "ST always writes index 0, whichever buffer holds the input",
    "refused": "above VGA: ST prepares an exception without raising it and then fails with a Python error",
}
HEAD = """# Patching the STM32H747I-DISCO applications

ST's script ran unchanged, locally.

Cases: 2 applications x 3 aspect ratios x QVGA, VGA and above x grey and RGB x 4 sets of memory pools. *Equal*: the
three files are the same line by line, but for spaces and empty lines. *Twice*: applying ours again changes nothing.

"""


@dataclass
class Count:
    cases: int = 0
    equal: int = 0
    refused_by_both: int = 0
    twice: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    application: str
    ratio: str
    size: str
    channels: int
    pools: str

    @property
    def picture(self) -> tuple[int, int, int]:
        return (*SIZES[self.size], self.channels)

    @property
    def title(self) -> str:
        return f"{self.application}, {self.ratio}, {self.size}, {self.channels} channels, {self.pools}"


def theirs(services: Path) -> Any:
    module = types.ModuleType("models_utils")
    module.__dict__["get_model_name_and_its_input_shape"] = lambda model_path, custom_objects: ("", model_path)
    sys.modules["models_utils"] = module
    path = services / "common" / "deployment" / "external_memory_mgt.py"
    spec = importlib.util.spec_from_file_location("external_memory_mgt", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def c_info(pools: dict[str, int]) -> dict[str, Any]:
    memory = [
        {"id": at, "name": name, "rights": "ACC_WRITE", "used_size_bytes": used}
        for at, (name, used) in enumerate(pools.items())
    ]
    memory.append({"id": len(pools), "name": "weights", "rights": "ACC_READ", "used_size_bytes": 4000})
    memory.append({"id": len(pools) + 1, "name": "DTCMRAM", "rights": "ACC_WRITE", "used_size_bytes": 0})
    buffers = [{"id": 7, "name": "input", "mpool_id": 0}]
    return {"memory_pools": memory, "buffers": buffers, "graphs": [{"inputs": [7]}]}


def words(files: dict[str, bytes]) -> dict[str, list[str]]:
    return {
        name: [" ".join(line.split()) for line in data.decode().splitlines() if line.strip()]
        for name, data in files.items()
    }


def copy(source: Path, target: Path) -> None:
    for file in FILES:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, target / file)


def try_case(case: Case, services: Path, script: Any, scratch: Path, count: Count) -> None:
    source = services / "application_code" / case.application / "STM32H7"
    info = scratch / "network_c_info.json"
    info.write_text(json.dumps(c_info(POOLS[case.pools])))
    ours, other = scratch / "ours", scratch / "theirs"
    for folder in (ours, other):
        shutil.rmtree(folder, ignore_errors=True)
        copy(source, folder)
    resizing = SimpleNamespace(resizing=SimpleNamespace(aspect_ratio=case.ratio))
    cfg = SimpleNamespace(preprocessing=resizing, general=SimpleNamespace(model_path=case.picture))
    count.cases += 1
    failed = ""
    try:
        script.update_activation_c_code(str(other), str(info), AXIRAM, cfg)
    except Exception as error:
        failed = type(error).__name__
    try:
        new = plan_patch(ours, info, AXIRAM, case.ratio, case.picture)
    except AtoncError:
        if failed:
            count.refused_by_both += 1
            count.reasons["refused"] = count.reasons.get("refused", 0) + 1
        else:
            count.unexplained.append(f"{case.title}: only ours refuses")
        return
    journal.commit(ours, new, backup=FILES)
    count.twice += plan_patch(ours, info, AXIRAM, case.ratio, case.picture) == read_project(ours)
    judge(case, words(read_project(ours)), words(read_project(other)), count)


def judge(case: Case, mine: dict[str, list[str]], other: dict[str, list[str]], count: Count) -> None:
    if mine == other:
        count.equal += 1
        return
    lines = [(a, b) for name in FILES for a, b in itertools.zip_longest(mine[name], other[name]) if a != b]
    reasons = {reason(case, *pair) for pair in lines}
    for found in sorted(reasons - {""}):
        count.reasons[found] = count.reasons.get(found, 0) + 1
    if "" in reasons:
        count.unexplained.append(f"{case.title}: {lines[:3]}")


def reason(case: Case, mine: str | None, other: str | None) -> str:
    both = f"{mine} {other}"
    if case.channels == 1 and re.search(r"(Captured|Rescaled)Image_Buffer_", both):
        return "grey"
    return "input" if "AI_NETWORK_INPUTS_IN_ACTIVATIONS_" in both and case.pools == "input in the larger" else ""


def run(arguments: argparse.Namespace) -> Report:
    services = arguments.fetched.resolve() / SERVICES
    script, count = theirs(services), Count()
    with tempfile.TemporaryDirectory() as scratch:
        for cells in itertools.product(APPLICATIONS, ("crop", "padding", "fit"), SIZES, (1, 3), POOLS):
            try_case(Case(*cells), services, script, Path(scratch), count)
    patched = count.cases - count.refused_by_both
    text = HEAD + "| cases | patched | equal | refused by both | twice as once |\n|---|---|---|---|---|\n"
    cells = (count.cases, patched, count.equal, count.refused_by_both, count.twice)
    text += f"| {' | '.join(map(str, cells))} |\n\n"
    text += "Different on purpose:\n\n"
    text += "".join(f"- {number} cases: {WHY[name]}.\n" for name, number in sorted(count.reasons.items()))
    text += "- all cases: ST reads and writes text, so that CRLF becomes LF; ours keeps bytes, modes and comments.\n"
    text += f"\nDifferences without a reason: {len(count.unexplained)}.\n"
    text += "".join(f"- {line}\n" for line in count.unexplained[:10])
    return Report(text, failed=bool(count.unexplained or count.twice != patched))
