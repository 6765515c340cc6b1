"""Rows of the table of ST's scripts: those that put networks onto a board, load images, or ask what it computes.

ST's loader `n6_loader.py` builds ST's own validation firmware with our network; ST's `st_load_and_run.py` lets ST's
firmware install our image; ST's clients and `validate --mode target` compare. Boards are virtual, and so are programmer
and debugger (`st_board_tools.py`); compilers, make and everything of ST's are real, and unmodified.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from atonc.delivery.firmware import image as firmware
from benchmarks import st_reloc_firmware, wire_clients
from benchmarks.shared import st_board_tools
from benchmarks.shared.bare_git import commit_of, unpack
from benchmarks.shared.corpus import ROOT
from benchmarks.shared.corpus import model as corpus_model
from benchmarks.shared.st_script_row import Row

ZOO = "STMicroelectronics+stm32ai-modelzoo-services"
VALIDATION = "SeongMin1000+N6_cusotm_validation"
AUDIO = "STMicroelectronics+STM32N6-GettingStarted-Audio"
GAUGES = "rishi-latchmepersad+embedded-gauge-reading-tinyml"
FIRST = "b33866f2c4cc4b290f2344e80eded39ad682ee4c"  # of VALIDATION: ST's loader and project before its owner's changes
PROJECT = "Projects/STM32N6570-DK/Applications/NPU_Validation"  # where the Makefile looks for itself
RUNNER = ("numpy<2", "protobuf<3.21", "pyserial", "tqdm", "colorama", "tabulate", "pyelftools")
CORE = "2.2.0"  # of ST's tools when that package was written
MODEL = "mnist_int8_io_i8.tflite"
IMAGE_MODELS = ("kws_ref_model.tflite",)
EQUAL = "every byte equals the emulator's"
LIMIT_S = 1800
_ON_TARGET = """
import json, sys, types
for name in ("omegaconf", "pandas"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["omegaconf"].DictConfig = dict
settings = json.loads(sys.argv[2], object_hook=lambda found: types.SimpleNamespace(**found))
sys.path.insert(0, sys.argv[1])
from on_target_evaluation import gen_load_val
gen_load_val(settings)
"""
_PACKAGE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
script = __import__(sys.argv[2])
script.MAKE_BIN = script.GCC_BIN = Path(sys.argv[3])
script.main()
"""


@dataclass(frozen=True)
class Bench:
    """What all rows share: fetched repositories, unpacked ones, programs."""

    fetched: Path
    work: Path
    python: Path  # with what ST's scripts import
    core: Path  # laid out by `atonc stedgeai --install`

    @property
    def unpacked(self) -> Path:
        return self.work / "unpacked"

    def part(self, name: str, *prefixes: str, commit: str = "HEAD") -> Path:
        return unpack(self.fetched, name, self.unpacked / name, prefixes, commit)

    def run(self, words: list[object], cwd: Path, more: dict[str, str] | None = None) -> tuple[int, str]:
        """How it ended, and all that it said."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            env={**os.environ, **(more or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        return done.returncode, done.stdout


def rows(fetched: Path, work: Path) -> list[Row]:
    work.mkdir(parents=True, exist_ok=True)
    bench = Bench(fetched, work, _runner(work / "unpacked"), work / "core")
    _install(bench.core)
    found = []
    for make in (_clients, _loader, _on_target, _images, _load_and_run, _gauges):
        for row in make(bench):
            print(f"{row.script}: {row.result}", flush=True)
            found.append(row)
    return found


def _install(folder: Path) -> None:
    """What is there already and is ST's stays."""
    command = [sys.executable, "-m", "atonc", "stedgeai", "--install", str(folder), "-q"]
    subprocess.run(command, check=True, cwd=ROOT)


def _runner(home: Path) -> Path:
    """A Python for ST's clients, whose protobuf is older than ours."""
    python = home / "runner" / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(home / "runner")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *RUNNER], check=True)
    return python


def _row(bench: Bench, name: str, script: str, called: str, result: str, commit: str = "HEAD") -> Row:
    """`result` begins with "ok" where it passed."""
    owner, _, repository = name.partition("+")
    return Row(f"{owner}/{repository}", commit_of(bench.fetched, name, commit)[:8], script, called, result,
               result.startswith("ok"))  # fmt: skip


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines or ["nothing was said"])[-1][:200]


# ------------------------------------------------------------------------------------------------------------- clients


def _clients(bench: Bench) -> Iterator[Row]:
    """ST's clients with a firmware of ours."""
    bench.part(ZOO, "common/stm_ai_runner")
    bench.part(VALIDATION, "scripts/ai_runner", "scripts/N6_reloc")
    common = firmware.compile_runtime(firmware.wire_runtime(), bench.work / "runtime")
    made = wire_clients.prepare("digits.tflite", bench.work / "digits", common, count=4)
    size = sum(map(len, made.outputs))
    for version, name in (("3.1", ZOO), ("3.2", VALIDATION)):
        told: dict[str, object] = {"failed": "TimeoutError"}
        outputs = None
        for _ in range(wire_clients.TRIES):  # the client gives a tensor 0.1 s, whatever else the machine has to do
            if outputs is None and "TimeoutError" in str(told):
                client = bench.unpacked / wire_clients.CLIENTS[version]
                outputs, told = wire_clients.session(made, client, bench.python, 1, "pty")
        same = outputs is not None and outputs == list(made.outputs) and bool(told["layered_equal"])
        result = f"ok: {size} bytes as `atonc run` gives them, also layer by layer" if same else f"failed: {told}"
        script = "common/stm_ai_runner" if version == "3.1" else "scripts/ai_runner/stm_ai_runner"
        yield _row(bench, name, script, f"AiRunner {version}: connect, summary, invoke in three modes", result)


# ----------------------------------------------------------------------------------------- ST's loader and its firmware


@dataclass(frozen=True)
class Station:
    """ST's loader with the project that it builds, and the programs that it calls."""

    scripts: Path
    tools: Path
    environment: dict[str, str]


def _station(bench: Bench, title: str) -> Station:
    """The loader's own configuration files say where everything is."""
    home = bench.work / title
    old = unpack(bench.fetched, VALIDATION, home / "first", ("Projects/STM32N6570-DK", "scripts/N6_scripts"), FIRST)
    project = home / "tree" / PROJECT
    shutil.copytree(old / "Projects/STM32N6570-DK/Applications/NPU_Custom_Validation", project)
    unpack(bench.fetched, AUDIO, home / "tree", ("Middlewares/ST/AI/Inc", "Middlewares/ST/AI/Lib/GCC"))
    unpack(bench.fetched, VALIDATION, home / "tree", ("Middlewares/ST/AI/Npu",))
    scripts, tools = old / "scripts" / "N6_scripts", home / "tools"
    environment = st_board_tools.install(tools)
    config = {
        "compiler_type": "gcc",
        "gdb_server_path": str(tools),
        "gcc_binary_path": str(tools),
        "objcopy_binary_path": str(tools / "arm-none-eabi-objcopy"),
        "cubeProgrammerCLI_binary_path": str(tools / "STM32_Programmer_CLI"),
        "make_binary_path": shutil.which("make"),
    }
    loading = {
        "network.c": str(scripts / "st_ai_output" / "network.c"),
        "memdump_path": str(scripts / "st_ai_output"),
        "project_path": str(project),
        "project_build_conf": "N6-DK",
        "skip_ram_data_programming": False,
        "skip_external_flash_programming": False,
    }
    (scripts / "config.json").write_text(json.dumps(config))
    (scripts / "config_n6l.json").write_text(json.dumps(loading))
    path = f"{bench.python.parent}:{os.environ['PATH']}"  # the zoo calls `python LOADER`
    return Station(scripts, tools, {**environment, "PATH": path})


def _loader(bench: Bench) -> Iterator[Row]:
    """What the loader builds runs on the board, and a script of ours asks it."""
    at, model = _station(bench, "loader"), corpus_model(MODEL)
    stedgeai = bench.core / "Utilities" / "linux" / "stedgeai"
    common = ["--target", "stm32n6", "--model", model]
    steps: list[tuple[list[object], str]] = [
        ([stedgeai, "generate", *common, "--st-neural-art", "profile_O3@user_neuralart.json"], "network.c"),
        ([bench.python, "n6_loader.py", "--n6-loader-config", "config_n6l.json"], "Start operation achieved success"),
        ([stedgeai, "validate", *common, "--mode", "target", "-d", "serial:921600", "-b", "2"], EQUAL),
    ]
    result = _done(bench, at, steps)
    called = "generate; n6_loader.py: copies, converts, builds ST's validation firmware; validate --mode target"
    yield _row(bench, VALIDATION, "scripts/N6_scripts/n6_loader.py", called, result, FIRST)


def _done(bench: Bench, at: Station, steps: list[tuple[list[object], str]]) -> str:
    try:
        for words, wanted in steps:
            code, said = bench.run(words, at.scripts, at.environment)
            if code or wanted not in said:
                return f"failed: {Path(str(words[0])).name} {words[1]} ended with {code}: {_last(said)}"
    finally:
        st_board_tools.end(at.tools)
    return f"ok: ST's firmware with our network on the virtual board: {EQUAL}"


def _on_target(bench: Bench) -> Iterator[Row]:
    at = _station(bench, "on_target")
    folder = bench.part(ZOO, "common/evaluation") / "common" / "evaluation"
    settings = {
        "general": {"model_path": str(corpus_model(MODEL))},
        "parameters": {
            "profile": "profile_O3",
            "input_type": "int8",
            "output_type": "int8",
            "input_chpos": "chlast",
            "output_chpos": "chlast",
            "evaluation_target": "stedgeai_n6",
        },
        "tools": {
            "stedgeai": {
                "path_to_stedgeai": str(bench.core / "Utilities" / "linux" / "stedgeai"),
                "path_to_loader": str(at.scripts / "n6_loader.py"),
            }
        },
    }
    words: list[object] = [bench.python, "-c", _ON_TARGET, folder, json.dumps(settings)]
    result = _done(bench, at, [(words, EQUAL)])
    called = "gen_load_val, stedgeai_n6: generate with a profile, n6_loader.py, validate --mode target without it"
    yield _row(bench, ZOO, "common/evaluation/on_target_evaluation.py", called, result)


# -------------------------------------------------------------------------------------------------------------- images


def _images(bench: Bench) -> Iterator[Row]:
    """ST's firmware for relocatable images, with ST's loader in it."""
    for name in IMAGE_MODELS:
        done = list(st_reloc_firmware._model(bench.unpacked, name, _fresh(bench.work / "images"), samples=1))
        wrong = [row for row in done if row.different]
        compared = sum(row.compared for row in done)
        told = f"ok: installed {len(done)} times, {compared} bytes as `atonc run` gives them"
        result = f"failed: {wrong}" if wrong else told
        called = f"{name}: generate -r, reloc, split and not; copied and in place; AiRunner 3.2"
        yield _row(bench, VALIDATION, "scripts/N6_reloc/test/stm32n6570-dk-validation-reloc-*.elf", called, result)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _load_and_run(bench: Bench) -> Iterator[Row]:
    """ST's script flashes our image, starts ST's firmware and asks it with ST's client."""
    work = _fresh(bench.work / "load_and_run")
    environment = st_board_tools.install(work / "ide" / "tools")
    environment |= {"PYTHONPATH": str(work / "ide" / "tools" / "python"), "STM32_CUBE_IDE_DIR": str(work / "ide")}
    environment["PATH"] = f"{work / 'ide' / 'tools'}:{os.environ['PATH']}"
    _cube_ide(work / "ide")
    stedgeai = bench.core / "Utilities" / "linux" / "stedgeai"
    wanted = ["--target", "stm32n6", "--st-neural-art", "default"]
    code, said = bench.run([stedgeai, "generate", "-m", corpus_model(MODEL), *wanted, "-r"], work)
    script = bench.unpacked / VALIDATION / "scripts" / "N6_reloc" / "st_load_and_run.py"
    built = [sys.executable, "-m", "atonc", "reloc", "st_ai_output", "-o", "build"]
    built += ["--runtime", st_reloc_firmware.RELEASE]
    if not code:
        code, said = bench.run(built, work, {"PYTHONPATH": str(ROOT)})
    if not code:
        code, said = bench.run([bench.python, script, "-i", "build/network_rel.bin"], work, environment)
    st_board_tools.end(work / "ide" / "tools")
    right = code == 0 and "inf/s" in said
    result = "ok: installed, run, times of every epoch printed" if right else f"failed: {_last(said)}"
    yield _row(bench, VALIDATION, "scripts/N6_reloc/st_load_and_run.py", "-i build/network_rel.bin", result)


def _cube_ide(folder: Path) -> None:
    """Plugins as ST's script looks for them, with the programs of `st_board_tools`."""
    for plugin in ("gnu-tools-for-stm32", "make2", "cubeprogrammer", "stlink-gdb-server"):
        place = folder / "plugins" / f"com.st.stm32cube.ide.mcu.externaltools.{plugin}" / "tools"
        place.mkdir(parents=True)
        (place / "bin").symlink_to(folder / "tools")
    (folder / "tools" / "make").symlink_to(shutil.which("make") or "make")
    for name in ("stm32cubeide", "stm32cubeidec"):
        for path in (folder / name, folder / "tools" / name):
            path.write_text("#!/bin/sh\nexit 0\n")
            path.chmod(0o755)


# -------------------------------------------------------------------------------------------------------------- gauges


def _gauges(bench: Bench) -> Iterator[Row]:
    """Two packages of a gauge reader: its scripts call ST's tool by its Windows name from a Linux under Windows."""
    home = bench.part(GAUGES, "ml/scripts/package_")
    pack, tools = _windows_pack(bench), _fresh(bench.work / "windows")
    for name, body in {"wslpath": 'shift; echo "$1"', "cmd.exe": _CMD}.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {"X_CUBE_AI_PACK_ROOT": str(pack), "PATH": f"{tools}:{os.environ['PATH']}", "ATONC_ST_RELEASE": CORE}
    for name in ("gauge_center_tip_v1", "gauge_ellipse_v1"):
        model = home / "ml" / "artifacts" / name / f"{name}_int8.tflite"
        model.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(corpus_model(MODEL), model)
        words: list[object] = [bench.python, "-c", _PACKAGE, home / "ml" / "scripts", f"package_{name}_for_n6", tools]
        code, said = bench.run(words, bench.work, environment)
        right = code == 0 and "[PACKAGE] Done." in said
        result = "ok: generated, packaged by npu_driver.py, all files staged" if right else f"failed: {_last(said)}"
        called = "generate --relocatable, npu_driver.py, files staged; a model of the corpus for the absent one"
        yield _row(bench, GAUGES, f"ml/scripts/package_{name}_for_n6.py", called, result)


# the script writes `"PYTHON" "DRIVER" %*` into a command file and lets cmd.exe run it
_CMD = """shift 2; shim=$1; shift
line=$(sed -n 3p "$shim"); python=$(echo "$line" | cut -d'"' -f2); driver=$(echo "$line" | cut -d'"' -f4)
exec "$python" "$driver" "$@\""""


def _windows_pack(bench: Bench) -> Path:
    """ST's scripts for images as published; programs by the names that they have there."""
    pack = bench.work / "pack"
    if not pack.is_dir():
        unpack(bench.fetched, AUDIO, pack, ("Middlewares/ST/AI",))
        unpack(bench.fetched, VALIDATION, pack, ("scripts/N6_reloc", "Middlewares/ST/AI/Npu"))
    _install(pack)
    place = pack / "Utilities" / "windows"
    place.mkdir(parents=True, exist_ok=True)
    programs: dict[str, Callable[[], object]] = {
        "stedgeai.exe": lambda: bench.core / "Utilities" / "linux" / "stedgeai",
        "python.exe": lambda: bench.python,
    }
    for name, target in programs.items():
        (place / name).write_text(f'#!/bin/sh\nexec "{target()}" "$@"\n')
        (place / name).chmod(0o755)
    return pack
