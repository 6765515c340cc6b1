"""ST's model zoo services on atonc by ST's name: their own scripts, unmodified, from the entry that users start.

Deployment goes up to the linked ELF: STM32CubeIDE is replaced by the make line of the same application. Everything is
unpacked anew from the fetched repositories. Two releases: 3.0 of ST with the applications v1.0.0 that it names (DK
only), and 4 as a public fork holds it, with the application that fits it (also for the Nucleo).
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atonc.delivery.generate.st_install import install
from atonc.doors.verbs.st_release import RELEASE
from benchmarks.getting_started import EXTRA
from benchmarks.shared.bare_git import commit_of, unpack
from benchmarks.shared.corpus import ROOT, model
from benchmarks.shared.st_script_row import Row

SESSION = ROOT / "benchmarks" / "shared" / "zoo_session.py"
OLD, NEW = "STMicroelectronics+stm32ai-modelzoo-services", "Le-Scientivic+stm32ai-modelzoo-services"
APPLICATION = "STMicroelectronics+STM32N6-GettingStarted-"
DK, NUCLEO = "STM32N6570-DK", "NUCLEO-N657X0-Q"
SMALL = "mobilenet_v1_0.25_96_tfs_int8.tflite"
TIMEOUT_S = 1800
_IDE = """#!{python}
# In place of STM32CubeIDE: the make line of the application that it would import; options that this compiler lacks are
# left out.
import subprocess, sys
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("-import") + 1]).parent
text = (folder / "Makefile").read_text().replace("-fcyclomatic-complexity", "")
(folder / "Makefile.here").write_text(text.replace("CFLAGS += -std=gnu11", {flags!r}))
sys.exit(subprocess.run(["nice", "make", "-f", "Makefile.here", "-j2"], cwd=folder).returncode)
"""
_LOADER = """# In place of ST's loader, which flashes a board: the virtual board runs what was generated here.
import subprocess, sys, time
words = [{python!r}, "-m", "atonc", "board"]
environment = dict(__import__("os").environ, PYTHONPATH={root!r})
subprocess.run([*words, "build", "st_ai_output", "-o", "firmware.elf", "-q"], check=True, env=environment)
log = open("board.log", "w")
line = [*words, "run", "firmware.elf", "--serial", "socket:{port}", "--seconds", "300"]
board = subprocess.Popen(line, stdout=log, stderr=log, env=environment, start_new_session=True)
open("board.pid", "w").write(str(board.pid))
while "UART at" not in open("board.log").read() and board.poll() is None:
    time.sleep(0.1)
"""


@dataclass(frozen=True)
class Deployment:
    use_case: str
    application: str
    config: str
    model: str
    board: str = DK
    words: tuple[str, ...] = ()
    commit: str = "HEAD"  # of the application: the one that the services name


OLD_DEPLOYMENTS = (
    Deployment(
        *("image_classification", "ImageClassification", "deployment_n6_mobilenet_v2_config.yaml"),
        "person__mobilenet_v2_0.35_128_fft_int8.tflite",
        commit="609480f",
    ),
    Deployment(
        *("object_detection", "ObjectDetection", "deployment_n6_yolox_config.yaml"),
        "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite",
        commit="bf726c2",
    ),
    Deployment(
        *("pose_estimation", "PoseEstimation", "deployment_n6_st_movenet_lightning_heatmaps_config.yaml"),
        "st_movenet_lightning_heatmaps_192_int8_pc.tflite",
        commit="fe4ca4c",
    ),
    Deployment(
        *("semantic_segmentation", "SemanticSegmentation", "deployment_n6_deeplab_v3_mobilenetv2_config.yaml"),
        "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8.onnx",
        commit="faee084",
    ),
)
_FACES = ("face_detection", "FaceDetection", "deployment_n6_blazeface_config.yaml")
_BLAZEFACE = "blazeface_front_128_quant_pc_ff_od_wider_face.tflite"
_UVCL = ("+deployment.hardware_setup.output=UVCL_ModelZoo",)
NEW_DEPLOYMENTS = (
    Deployment(*_FACES, _BLAZEFACE),
    Deployment(*_FACES, _BLAZEFACE, NUCLEO, _UVCL),
)


@dataclass(frozen=True)
class Zoo:
    """An unpacked release of the services, and the installation that its scripts are given."""

    name: str
    commit: str
    folder: Path
    installation: Path
    python: Path
    ide: Path

    @property
    def executable(self) -> Path:
        return self.installation / "Utilities" / "linux" / "stedgeai"

    def run(self, script: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = ["nice", str(self.python), str(SESSION), str(self.folder), script, *words]
        places = (str(self.python.parent), str(self.ide.parent), os.environ["PATH"])
        found = os.environ | {"PATH": os.pathsep.join(places)} | more
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, env=found)

    def row(self, script: str, called: str, result: str, passed: bool) -> Row:
        return Row(self.name.replace("+", "/", 1), self.commit, script, called, result, passed)


def rows(fetched: Path, work: Path, python: Path) -> Iterator[Row]:
    old, new = (_zoo(fetched, name, work / f"zoo{k}", python) for k, name in enumerate((OLD, NEW)))
    yield from local_benchmark(old)
    yield on_host(old)
    yield on_target(old)
    for deployment in OLD_DEPLOYMENTS:
        yield deploy(old, deployment, fetched, f"{deployment.use_case}/src", "general")
    for deployment in NEW_DEPLOYMENTS:
        yield deploy(new, deployment, fetched, deployment.use_case, "model")


def _zoo(fetched: Path, name: str, work: Path, python: Path) -> Zoo:
    folder = work / "services"
    unpack(fetched, name, folder)
    ide = work / "stm32cubeide"
    flags = f"CFLAGS += -std=gnu11 {EXTRA}"
    ide.write_text(_IDE.format(python=sys.executable, flags=flags))
    programmer = work / "STM32_Programmer_CLI"  # it finds no board
    programmer.write_text("#!/bin/sh\n")
    for program in (ide, programmer):
        program.chmod(0o755)
    install(work / "st", RELEASE)
    return Zoo(name, commit_of(fetched, name)[:9], folder, work / "st", python, ide)


# ---------------------------------------------------------------------------------------------------------- deployment


def deploy(zoo: Zoo, what: Deployment, fetched: Path, place: str, section: str) -> Row:
    """The services' own deployment of a model into ST's application: is there an ELF with this network?"""
    application = zoo.folder / "application_code" / what.use_case / "STM32N6"
    repository = APPLICATION + what.application
    if what.board == DK:
        shutil.rmtree(application, ignore_errors=True)
        unpack(fetched, repository, application, commit=what.commit)
        _as_submodule(zoo.folder, application)
    runtime = next(place for place in sorted(application.glob("Middlewares/*")) if (place / "Npu").is_dir())
    install(zoo.installation, RELEASE, runtime)
    script = f"{place}/stm32ai_main.py"
    configs = zoo.folder / place / "config_file_examples"
    done = zoo.run(
        *(script, "--config-path", str(configs), "--config-name", what.config),
        *(f"{section}.model_path={model(what.model)}", f"tools.path_to_cubeIDE={zoo.ide}"),
        *(f"tools.stedgeai.path_to_stedgeai={zoo.executable}", f"deployment.hardware_setup.board={what.board}"),
        *what.words,
    )
    commit = commit_of(fetched, repository, what.commit)[:9]
    called = f"deployment of {what.model} into {repository.partition('+')[2]} ({commit})"
    built = (elf for elf in sorted(application.rglob("build/**/*.elf")) if what.board == DK or what.board in str(elf))
    elf = next(built, None)
    end = _end(done.stdout + done.stderr)
    if elf is None or not end:
        return zoo.row(script, f"{called}, {what.board}", _last(done), False)
    size = (
        subprocess.run(["arm-none-eabi-size", str(elf)], capture_output=True, text=True).stdout.splitlines()[1].split()
    )
    ours = b"LL_ATON_EpochBlockItems" in elf.read_bytes()
    told = f"ELF linked ({int(size[0]):,} bytes of code, network {'in it' if ours else 'MISSING'}); {end}"
    return zoo.row(script, f"{called}, {what.board}", told, ours)


def _end(said: str) -> str:
    """How the deployment ended after the build; newer services take a board that is not there for an error."""
    if "Deployment complete" in said:
        return 'ends with "Deployment complete"'
    return "ends where a board would be programmed" if "board programming is SKIPPED" in said else ""


def _as_submodule(zoo: Path, application: Path) -> None:
    """The newer services ask git whether the application is the submodule that belongs to them."""
    who = ("-c", "user.email=nobody@localhost", "-c", "user.name=nobody")

    def git(place: Path, *words: str) -> str:
        return subprocess.run(
            ["git", *who, *words], cwd=place, capture_output=True, text=True, check=True
        ).stdout.strip()

    git(zoo, "init", "-q")
    git(application, "init", "-q")
    git(application, "commit", "-q", "--allow-empty", "-m", "as fetched")
    commit = git(application, "rev-parse", "HEAD")
    git(zoo, "update-index", "--add", "--cacheinfo", f"160000,{commit},{application.relative_to(zoo)}")
    if (zoo / ".gitmodules").is_file():
        git(zoo, "add", ".gitmodules")
    git(zoo, "commit", "-q", "-m", "as fetched")


# ----------------------------------------------------------------------------------------------------- other code paths


def local_benchmark(zoo: Zoo) -> Iterator[Row]:
    """The benchmark without the cloud, and the footprints that it prints from what the tool wrote."""
    script = "image_classification/src/stm32ai_main.py"
    configs = zoo.folder / "image_classification" / "src" / "config_file_examples"
    done = zoo.run(
        *(script, "--config-path", str(configs), "--config-name", "benchmarking_config.yaml"),
        *(f"general.model_path={model(SMALL)}", "tools.stedgeai.on_cloud=False"),
        f"tools.stedgeai.path_to_stedgeai={zoo.executable}",
    )
    ended = "Benchmark complete" in done.stdout
    yield zoo.row(
        script, f"local benchmark of {SMALL}", 'ends with "Benchmark complete"' if ended else _last(done), ended
    )
    shown = re.findall(r"\[INFO\] : ((?:RAM Activations|Flash weights|MACCs) : [\d.]+ \(\w+\))", done.stdout)
    told = ", ".join(shown) or _last(done)
    yield zoo.row("common/benchmarking/common_benchmark.py", "analyze_footprints", told, len(shown) == 3)


def on_host(zoo: Zoo) -> Row:
    """`gen_load_val` for the host, then the services' own runner on the library that it finds in st_ai_ws."""
    return _evaluation(zoo, "stedgeai_host", "st_ai_ws", {})


def on_target(zoo: Zoo) -> Row:
    """The same for a board: generate, load, validate. The loader is a stand-in that starts the virtual board."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scripts = zoo.installation / "scripts" / "N6_scripts"
    text = _LOADER.format(python=sys.executable, root=str(ROOT), port=port)
    (scripts / "n6_loader.py").write_text(text)
    try:
        return _evaluation(zoo, "stedgeai_n6", "", {"ATONC_LINE": f"socket:127.0.0.1:{port}"})
    finally:
        if (scripts / "board.pid").is_file():
            subprocess.run(["kill", (scripts / "board.pid").read_text()], check=False)


def _evaluation(zoo: Zoo, target: str, library: str, environment: dict[str, str]) -> Row:
    script = zoo.folder / "common" / "evaluation" / "_trial.py"
    script.write_text(_TRIAL.format(
        *(str(zoo.folder / "common"), str(model(SMALL)), str(zoo.executable)),
        *(str(zoo.installation / "scripts" / "N6_scripts" / "n6_loader.py"), target, library),
    ))  # fmt: skip
    (script.parent / "src").mkdir(exist_ok=True)
    done = zoo.run("common/evaluation/_trial.py", **environment)
    told = re.findall(r"^TRIAL (.+)$", done.stdout, re.MULTILINE)
    called = f"gen_load_val of {SMALL}, target {target}" + (", then AiRunner on what it built" if library else "")
    return zoo.row("common/evaluation/on_target_evaluation.py", called, told[-1] if told else _last(done), bool(told))


# calls the services' functions as image_classification/stm32ai_eval_on_target.py does
_TRIAL = """
import os, sys
import numpy as np
from types import SimpleNamespace as S
common = {0!r}
sys.path[:0] = [common, os.path.join(common, "evaluation"), os.path.join(common, "utils")]
from on_target_evaluation import gen_load_val
parameters = S(profile="default", input_type="uint8", output_type="float32", input_chpos="chlast",
               output_chpos="chlast", evaluation_target={4!r})
tools = S(stedgeai=S(path_to_stedgeai={2!r}, path_to_loader={3!r}))
gen_load_val(S(general=S(model_path={1!r}), parameters=parameters, tools=tools))
if not {5!r}:
    print("TRIAL generated, loaded onto the virtual board and validated there: exit code 0")
    sys.exit()
from models_utils import ai_runner_interp
from ai_edge_litert.interpreter import Interpreter, OpResolverType
runner = ai_runner_interp("stedgeai_host", "trial")
reference = Interpreter(model_path={1!r}, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
reference.allocate_tensors()
given, taken = reference.get_input_details()[0], reference.get_output_details()[0]
agree, most, count = 0, 0.0, 20
for k in range(count):
    codes = np.random.default_rng(k).integers(0, 256, given["shape"]).astype(np.uint8)
    (found,), _ = runner.invoke(codes)
    scale, zero = given["quantization"]
    reals = codes if given["dtype"] is np.uint8 else (codes.astype(np.int16) - 128).astype(given["dtype"])
    reference.set_tensor(given["index"], reals)
    reference.invoke()
    wanted = reference.get_tensor(taken["index"]).astype(np.float64)
    scale, zero = taken["quantization"]
    wanted = (wanted - zero) * scale if scale else wanted
    agree += int(found.reshape(-1).argmax() == wanted.reshape(-1).argmax())
    most = max(most, float(np.abs(found.reshape(-1) - wanted.reshape(-1)).max()))
print(f"TRIAL AiRunner ran the library: {{agree}} of {{count}} classes as the TFLite reference kernels, "
      f"largest difference {{most:.4f}}")
"""


def _output(place: Path, *command: str) -> str:
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout.strip()


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (*done.stdout.splitlines(), *done.stderr.splitlines()) if line.strip()]
    return f"exit code {done.returncode}: {lines[-1].strip()[:200] if lines else 'no output'}"
