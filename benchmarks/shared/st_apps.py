"""ST's applications for the STM32N6, each with its own script and its own Makefile.

The script finds us under ST's name on PATH, its copies are what the application compiles, and the network of the linked
image runs on the virtual board with the outputs of `atonc run`.

Repositories are git directories `FETCHED/OWNER+NAME/repo`; their files go to WORK, unchanged but for models that a
snapshot lacks (another one of the corpus takes the name) and for line ends of a script that bash cannot read. GCC_PATH
of the Makefiles names a compiler that leaves out an option which only ST's own knows, and adds macros that its headers
lack.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atonc.delivery.generate.st_install import install
from atonc.doors.verbs.st_release import RELEASE
from atonc.insight.runs import runs
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.intel_hex import read_hex
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.network import read_contents
from benchmarks.shared import git_files, st_packager
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.elf_network import ElfNetwork
from benchmarks.shared.st_script_row import Row

OWNER = "STMicroelectronics"
GETTING_STARTED = "STM32N6-GettingStarted"
_DK, _NUCLEO = "STM32N6570-DK", "NUCLEO-N657X0-Q"
# models that snapshots lack (stored elsewhere) -> one of the corpus for the same use
_STAND_INS = {"quantized_tiny_yolo_v2_224_.tflite": "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite"}
_COMPILER = """#!/bin/bash
left=(); core=()
for word in "$@"; do
  case "$word" in -fcyclomatic-complexity) continue ;; -m*|-std=*|-D_*|-specs=*|--specs=*) core+=("$word") ;; esac
  left+=("$word")
done
lacks() {{ ! printf "$1" | {gcc} "${{core[@]}}" -x c -fsyntax-only - 2>/dev/null; }}
lacks '#include <math.h>\nfloat_t x;double_t y;\n' && left+=(-Dfloat_t=float -Ddouble_t=double)
lacks '#include <inttypes.h>\nconst char *x = PRIx64 PRIu64;\n' && left+=('-DPRIx64="llx"' '-DPRIu64="llu"')
exec {gcc} "${{left[@]}}"
"""
_PLACE = "<path_to_stedge>/stedgeai.exe"
# a source of CMSIS that is too large for snapshots of most repositories, and where it is
TABLES = (f"{OWNER}+stm32ai-modelzoo-services", "CommonTables/arm_common_tables.c")
_TOOLS = ("objcopy", "size", "readelf")
_PREFIX = "arm-none-eabi-"


@dataclass(frozen=True)
class App:
    repository: str
    script: str
    make: str  # the folder with the Makefile
    model: str  # the folder that the script copies to
    networks: tuple[str, ...] = ("network",)
    model_file: str = ""  # for a script that is told
    target: str = ""  # of make


def _board(use: str, board: str = _DK, networks: tuple[str, ...] = ("network",)) -> App:
    script, make = f"Model/generate-n6-model_{board}.sh", f"Application/{board}"
    return App(f"{GETTING_STARTED}-{use}", script, make, f"Model/{board}", networks)


def _package(use: str, networks: tuple[str, ...] = ("network",)) -> App:
    return App(f"x-cube-n6-ai-{use}", "Model/generate-n6-model.sh", ".", "Model", networks)


APPS = (
    _board("ImageClassification", _NUCLEO),
    _board("FaceDetection"),
    _board("FaceDetection", _NUCLEO),
    _board("ObjectDetection"),
    _board("PoseEstimation"),
    _board("SemanticSegmentation"),
    _board("ReID", networks=("od", "reid")),
    _package("hand-landmarks", ("palm_detector", "hand_landmark")),
    _package("face-landmarks", ("face_detector", "face_landmark")),
    _package("h264-usb-uvc"),
    _package("people-detection-tracking"),
    _package("power-measurement"),
    App(
        f"{GETTING_STARTED}-Audio",
        "Projects/X-CUBE-AI/models/generate-n6-model.sh",
        "Projects/GS",
        "Projects/X-CUBE-AI/models",
        model_file="yamnet_1024_64x96_tl_qdq_int8.onnx",
        target="bm",
    ),
)


def rows(fetched: Path, work: Path) -> list[Row]:
    work.mkdir(parents=True, exist_ok=True)
    tools = tools_in(work / "tools")
    found = []
    for app in APPS:
        found.append(_row(app, fetched / f"{OWNER}+{app.repository}" / "repo", work / app.repository, tools))
        print(found[-1], file=sys.stderr, flush=True)
    return [*found, st_packager.row(fetched, work)]


def _row(app: App, repository: Path, folder: Path, tools: Path) -> Row:
    git_files.unpack(repository, folder)
    changed = [*stand_ins(folder / "Model"), *_unix_lines(folder / app.script), *_placed(folder / app.script)]
    changed += git_files.borrow(repository.parents[1] / TABLES[0] / "repo", TABLES[1], folder, "arm_common_tables.c")
    script = (folder / app.script).read_text()
    called = "; ".join(line for line in script.splitlines() if re.match(r'(stedgeai|"\$generateCmd") ', line))
    try:
        result, passed = "; ".join((*_built(app, folder, tools), *changed)), True
    except (AtoncError, subprocess.CalledProcessError, KeyError) as error:
        result, passed = reason(error), False
    return Row(f"{OWNER}/{app.repository}", git_files.commit(repository)[:7], app.script, called, result, passed)


def reason(error: Exception) -> str:
    if not isinstance(error, subprocess.CalledProcessError):
        return f"{type(error).__name__}: {error}"[:300]
    lines = re.findall(r"^.*(?:error|Error|undefined).*$", f"{error.stdout}{error.stderr}", re.MULTILINE)
    return f"{Path(error.cmd[0]).name} ends with {error.returncode}: {' / '.join(lines[:3])}"[:300]


def stand_ins(models: Path) -> Iterator[str]:
    """A model of the corpus under the name of one that is not there; what to say about it."""
    said = []
    for script in models.glob("*.sh"):
        for name in re.findall(r"--model (\S+)", script.read_text()):
            place = models / name
            if place.name in _STAND_INS and not place.is_file():
                shutil.copy(corpus_dir() / "models" / _STAND_INS[place.name], place)
                said.append(f"{_STAND_INS[place.name]} in place of {place.name}, which the snapshot lacks")
    return iter(dict.fromkeys(said))


def _unix_lines(script: Path) -> Iterator[str]:
    """Some scripts were written on Windows, and their last words would end with a carriage return."""
    data = script.read_bytes()
    if b"\r\n" in data:
        script.write_bytes(data.replace(b"\r\n", b"\n"))
        yield "line ends of the script made those of Unix"


def _placed(script: Path) -> Iterator[str]:
    """One script wants its user to write the place of ST's tool into it."""
    text = script.read_text()
    if _PLACE in text:
        script.write_text(text.replace(_PLACE, "stedgeai"))
        yield "the place of stedgeai written into the script, as it asks for"


def _built(app: App, folder: Path, tools: Path) -> Iterator[str]:
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    script = folder / app.script
    run_in(["bash", script.name, app.model_file], script.parent, environment)
    run_in(["make", f"GCC_PATH={tools}", "-j2", *([app.target] if app.target else [])], folder / app.make, environment)
    images = sorted((folder / app.make).rglob("*.elf"), key=lambda path: path.stat().st_mtime_ns)
    yield f"linked ({images[-1].stat().st_size:,} bytes)"
    for name in app.networks:
        yield _same_outputs(images[-1], folder / app.model, name)


def run_in(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace")
    done.check_returncode()


def _same_outputs(image: Path, model: Path, name: str) -> str:
    """The network of the image and `atonc run` of the copied files, on the same random inputs."""
    flash = [part for path in sorted(model.glob("*_data*.hex")) for part in read_hex(path)]
    flash = flash or [(part.address, part.data) for part in read_contents(model, name, None)[1]]
    options = runs.RunOptions(model, name=name, seed=1)
    net = runs.load(options)
    inputs = runs.choose_inputs(net, options)
    wanted = runs.execute(net, inputs, options)
    given = [inputs[info.name].tobytes() for info in net.inputs]
    found = ElfNetwork(image, flash).run(read_network(model, name), given)
    different = [i.name for i, data in zip(net.outputs, found, strict=True) if data != wanted.outputs[i.name].tobytes()]
    if different:
        raise AtoncError(f"{name} of the image gives other bytes for {', '.join(different)}", where=str(image))
    return f"{name} of the image: {sum(map(len, found)):,} bytes of {len(found)} outputs equal those of `atonc run`"


def tools_in(folder: Path) -> Path:
    """ST's name and the compiler of the Makefiles."""
    folder.mkdir(exist_ok=True)
    install(folder.parent / "installation", RELEASE)
    shutil.copy(folder.parent / "installation/Utilities/linux/stedgeai", folder)
    _program(folder / f"{_PREFIX}gcc", _COMPILER.format(gcc=shutil.which(f"{_PREFIX}gcc")))
    for tool in _TOOLS:
        place, found = folder / f"{_PREFIX}{tool}", shutil.which(f"{_PREFIX}{tool}")
        if found and not place.exists():
            place.symlink_to(found)
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
