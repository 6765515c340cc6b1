"""`atonc deploy`: the steps of a deployment, and how they follow each other.

A step gives the files that it wants; `journal.py` puts them in place together, with a record of what the step was made
from. So a step that was done is known as such, and whoever is interrupted starts again with the first that was not.
Steps that change what `make` compiles wait for each other: their files take their places in one step, before the build.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import Options
from atonc.delivery.deploy import journal, tools
from atonc.delivery.deploy.app_config import header_of, text_of
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, draft, inputs_digest, put
from atonc.delivery.deploy.h747 import line_end, plan_patch
from atonc.delivery.deploy.journal import Contents, digest
from atonc.delivery.firmware.launch_files import absent, launch_files
from atonc.delivery.generate.profiles import read_profile
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ToolError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, is_are
from atonc.machine.hw.board import Board, find_board
from atonc.machine.hw.machine import read_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = "network"
_MOST_MODEL = 1 << 30
_SOUNDS = ("audio_event_detection", "speech_enhancement")

# ------------------------------------------------------------------- the model compiled, for the application's memories


def _options(deployment: Deployment) -> Options:
    """Pictures come from the camera as bytes, channels last; outputs as the post-processing wants them."""
    profile = read_profile(deployment.layout.profile) if deployment.layout.profile else None
    if profile is not None and profile.encrypt_weights:
        raise InputError(
            "the profile asks for --encrypt-weights",
            where=deployment.layout.profile,
            rule="deploy flashes what it makes; encrypted weights go over a board first (docs/encryption.md)",
            remedy="take --encrypt-weights out of the profile, or generate, encrypt and flash by hand",
        )
    pools = profile.memory_pool if profile is not None else None
    pictures = deployment.config.use_case not in _SOUNDS
    return Options(
        board=deployment.config.board.lower(),
        mpool=str(pools or ""),
        input_type="uint8" if pictures else "",
        output_type=deployment.output_type,
        inputs_channel_position="chlast" if pictures and not deployment.model.channels_last else "",
        verify=deployment.wishes.verify,
    )


def _generate_step(deployment: Deployment, dry_run: bool) -> StepResult:
    from atonc.delivery.generate.generating import analyze, files_of

    options, layout, model = _options(deployment), deployment.layout, deployment.model_file
    # applications of the newer interface have its file beside their network
    stai = deployment.current(f"{layout.network}/stai_network.c") is not None
    pools = digest(read_file(deployment.root / options.mpool, _MOST_MODEL)) if options.mpool else ""
    kept = (options.board, options.input_type, options.output_type, options.inputs_channel_position, options.verify)
    inputs = inputs_digest(digest(read_file(model, _MOST_MODEL)), model.name, pools, *kept, stai)
    if deployment.is_done(GENERATE.name, inputs):
        return StepResult(skipped="compiled before")
    if dry_run:
        return StepResult(note=f"would compile {model.name} to {layout.generated}")
    made = files_of(analyze(model, options, NAME), with_hex=True, with_stai=stai)
    files = {f"{layout.generated}/{name}": data for name, data in made.items()}
    return put(deployment, deployment.recorded(GENERATE.name, inputs, files), dry_run, f"{layout.generated}/{NAME}.c")


GENERATE = DeployStep("generate", "compile the model", _generate_step)

# ---------------------------------------- its header, its files where the application looks for them, weights to flash

_TABLES = (
    "user_win and the mel tables of the project are not made here: they must be for the same numbers as this header"
)


def _header_step(deployment: Deployment, dry_run: bool) -> StepResult:
    header = header_of(deployment.config, deployment.model, deployment.dialect)
    target = deployment.layout.headers.get(header.file)
    if target is None:
        where = f"stmaic_{deployment.config.board}.conf"
        raise InputError(f"does not say where {header.file} goes", where=where, remedy="add it to its templates")
    text, before = text_of(header).encode(), deployment.current(target)
    data = text.replace(b"\n", line_end(before)) if before else text
    note = _TABLES if deployment.config.use_case in _SOUNDS else ""
    return replace(draft(deployment, {target: data}, dry_run, backup=(target,)), note=note)


_MOST_BYTES = 1 << 28
_H7_FILES = ("_config.h", ".h", ".c", "_data.h", "_data.c", "_data_params.h", "_data_params.c")


def _network_step(deployment: Deployment, dry_run: bool) -> StepResult:
    layout = deployment.layout
    if deployment.is_h7:
        return draft(deployment, _of_the_other_tool(deployment), dry_run)
    names = [Path(file).name for file in deployment.outputs("generate") if file.endswith((".c", ".h"))]
    files = {f"{layout.network}/{n}": deployment.current(f"{layout.generated}/{n}") or b"" for n in names}
    if not files and dry_run:
        return StepResult(note=f"would copy the network's C files to {layout.network}")
    return draft(deployment, files, dry_run)


def _folder_of_the_other_tool(deployment: Deployment) -> Path:
    if deployment.wishes.network is None:
        rule = "networks for the CPU of the STM32H7 are compiled by ST's tool"
        remedy = "run stedgeai generate, and give its output folder with --network"
        raise InputError("no compiled network given", rule=rule, remedy=remedy)
    return deployment.wishes.network


def _of_the_other_tool(deployment: Deployment) -> Contents:
    folder, layout = _folder_of_the_other_tool(deployment), deployment.layout
    found = [path for end in _H7_FILES if (path := folder / f"network{end}").is_file()]
    if not any(path.name == "network.c" for path in found):
        raise InputError("has no network.c", where=str(folder), remedy="give the output folder of stedgeai generate")
    places = {".h": "Inc", ".c": "Src"}
    return {f"{layout.network}/{places[path.suffix]}/{path.name}": read_file(path, _MOST_BYTES) for path in found}


HEX = "network_data.hex"


def _initialisers_step(deployment: Deployment, dry_run: bool) -> StepResult:
    """`.bin` as weights lie in memory, `.hex` with their address: `network_atonbuf.xSPI2.raw` becomes
    `network_data.xSPI2.bin`, the name in the applications' scripts."""
    folder, files = deployment.layout.network, {}
    for file in map(Path, deployment.outputs("generate")):
        data = deployment.current(str(file)) or b""
        if file.suffix == ".raw" and data:
            files[f"{folder}/network_data.{file.stem.rpartition('.')[2]}.bin"] = data
        elif file.suffix == ".hex" and data:
            files[f"{folder}/{HEX}"] = data
    if not files and dry_run:
        return StepResult(note=f"would write {HEX} and network_data.*.bin to {folder}")
    return draft(deployment, files, dry_run)


_KILO = 1000  # as the zoo's scripts count these sizes
_LEAST_AXIRAM = 415 * _KILO  # the smaller of the two published applications'


def _axiram(path: Path) -> int:
    if not path.is_file():
        return _LEAST_AXIRAM
    document: Mapping[str, Any] = read_json(path)
    try:
        pools = document["memory"]["mempools"]
        return int(next(pool for pool in pools if pool["name"] == "AXIRAM")["size"]["value"]) * _KILO
    except (KeyError, TypeError, ValueError, StopIteration):
        raise InputError("does not say how much AXIRAM there is", where=str(path)) from None


def _patch_step(deployment: Deployment, dry_run: bool) -> StepResult:
    """The STM32H747I-DISCO applications: camera, buffers, input."""
    ratio = str(deployment.config.settings.require("preprocessing.resizing.aspect_ratio"))
    info = _folder_of_the_other_tool(deployment) / "network_c_info.json"
    pools = deployment.root / f"mempools_{deployment.config.board}.json"
    axiram = _axiram(pools)
    files = plan_patch(deployment.root, info, axiram, ratio, deployment.model.image)
    done = draft(deployment, files, dry_run, backup=tuple(files))
    note = "" if pools.is_file() else f"{pools.name} is not there: {axiram:,} bytes of AXIRAM taken"
    return replace(done, note=note)


HEADER = DeployStep("header", "describe the model to the application", _header_step, drafts=True)
NETWORK = DeployStep("network", "copy the network's files", _network_step, drafts=True)
INITIALISERS = DeployStep("initialisers", "convert the weights", _initialisers_step, drafts=True)
PATCH = DeployStep("patch", "place camera and activation buffers", _patch_step, drafts=True)

# ------------------------------------- the firmware, with what the project is built with: make, CMake, or STM32CubeIDE
# The user's Makefile stays as it is: a twin beside it leaves out what this compiler does not know. Objects are made in
# a folder of their own. A mark says that it is being worked in; whoever finds it begins anew, because a compiler that
# was killed leaves halves.

TWIN = "Makefile.atonc"
ELF, BINARY = "Project.elf", "Project.bin"
_BUILD = "build-atonc"
_MARK = f"{journal.FOLDER}/building"
_ODD_OPTION = "-fcyclomatic-complexity"  # known to ST's compiler only
# what headers of some compilers lack -> the macros that stand in for it
_LACKS = {
    "#include <math.h>\nfloat_t x;\ndouble_t y;\n": "-Dfloat_t=float -Ddouble_t=double",
    "#include <inttypes.h>\nconst char *x = PRIx64 PRIu64;\n": "-DPRIx64='\"llx\"' -DPRIu64='\"llu\"'",
}
_REMEDY = "Debian, Ubuntu: apt install make gcc-arm-none-eabi libnewlib-arm-none-eabi; or install STM32CubeIDE"


def _build_step(deployment: Deployment, dry_run: bool) -> StepResult:
    builder = _builder(deployment)
    if builder is None:
        return StepResult(skipped=f"neither make with arm-none-eabi-gcc, nor CMake, nor STM32CubeIDE. {_REMEDY}")
    name, folder = builder
    if dry_run:
        return StepResult(note=f"would build {folder} with {name}")
    with _alone(deployment) as handle:
        image = _BUILDERS[name](deployment, handle)
    firmware = deployment.layout.firmware
    files = {f"{firmware}/{ELF}": image.read_bytes(), f"{firmware}/{BINARY}": _binary(image)}
    if not deployment.is_h7:
        weights = f"{deployment.layout.network}/{HEX}"
        flash = [weights] if deployment.current(weights) is not None else []
        files |= absent(launch_files(f"{firmware}/{ELF}", flash), deployment.current)
    return put(deployment, files, dry_run, f"{firmware}/{BINARY}")


def _builder(deployment: Deployment) -> tuple[str, str] | None:
    folder, compiler = deployment.layout.sources, tools.find("arm-none-eabi-gcc")
    if (deployment.root / folder / "Makefile").is_file() and compiler and tools.find("make"):
        return "make", folder
    if (deployment.root / folder / "CMakeLists.txt").is_file() and compiler and tools.find("cmake"):
        return "cmake", folder
    if (deployment.root / deployment.layout.ide_project / ".project").is_file() and _ide(deployment):
        return "STM32CubeIDE", deployment.layout.ide_project
    return None


def _make(deployment: Deployment, handle: int) -> Path:
    folder = deployment.root / deployment.layout.sources
    twin = f"{deployment.layout.sources}/{TWIN}"
    text = twin_makefile((folder / "Makefile").read_text(errors="surrogateescape"))
    journal.commit(deployment.root, {twin: text.encode(errors="surrogateescape")})
    folder_name = "BUILD_TOP" if "BUILD_TOP" in text else "BUILD_DIR"
    command = ["make", "-f", TWIN, f"{folder_name}={_BUILD}", f"-j{deployment.wishes.compilers}"]
    tools.run(command, folder, "building the firmware", (handle,))
    return _newest(folder / _BUILD)


def twin_makefile(text: str) -> str:
    """The project's Makefile for this compiler."""
    gcc = tools.find("arm-none-eabi-gcc") or Path("arm-none-eabi-gcc")
    if _ODD_OPTION in text and not tools.accepts(gcc, "int x;\n", _ODD_OPTION):
        text = text.replace(_ODD_OPTION, "")
    macros = " ".join(macro for source, macro in _LACKS.items() if not tools.accepts(gcc, source))
    if macros:
        text = f"C_DEFS += {macros}\n" + text
    return f"# made by atonc from Makefile; it is written anew with every deployment\n{text}"


def _cmake(deployment: Deployment, handle: int) -> Path:
    folder = deployment.root / deployment.layout.sources
    build = folder / _BUILD
    tools.run(["cmake", "-S", ".", "-B", str(build)], folder, "configuring the firmware", (handle,))
    command = ["cmake", "--build", str(build), f"-j{deployment.wishes.compilers}"]
    tools.run(command, folder, "building the firmware", (handle,))
    return _newest(build)


def _ide(deployment: Deployment) -> Path | None:
    named = str(deployment.config.settings.get("tools.path_to_cubeIDE") or "")
    if named and Path(named).is_file():
        return Path(named)
    folder = os.environ.get("STM32_CUBE_IDE_DIR")
    return tools.find("stm32cubeide", *([Path(folder)] if folder else []))


def _cube_ide(deployment: Deployment, handle: int) -> Path:
    layout, program = deployment.layout, _ide(deployment)
    project = deployment.root / layout.ide_project
    with tempfile.TemporaryDirectory() as workspace:
        command = [str(program), "--launcher.suppressErrors", "-nosplash", "-application"]
        command += ["org.eclipse.cdt.managedbuilder.core.headlessbuild", "-data", workspace]
        command += ["-import", str(project), "-cleanBuild", f"{layout.ide_name}/{layout.ide_configuration}"]
        tools.run(command, project, "building the firmware", (handle,))
    return _newest(project / layout.ide_configuration)


_BUILDERS = {"make": _make, "cmake": _cmake, "STM32CubeIDE": _cube_ide}


def _newest(folder: Path) -> Path:
    """The one image of a build."""
    found = sorted(folder.rglob("*.elf"), key=lambda path: (path.stat().st_mtime_ns, str(path)))
    if not found:
        raise ToolError("the build ended without an image", where=str(folder), remedy="look at what it makes")
    return found[-1]


def _binary(image: Path) -> bytes:
    """Reads the image as it lies in memory: what gets signed and flashed."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, BINARY)
        command = ["arm-none-eabi-objcopy", "-O", "binary", str(image), str(target)]
        tools.run(command, image.parent, "converting the image")
        return target.read_bytes()


@contextmanager
def _alone(deployment: Deployment) -> Iterator[int]:
    """Nobody else builds: a compiler of a run that was killed may still be at work, and holds the lock until it ends.
    The mark stays if the build does not come to its end."""
    root = deployment.root
    (root / journal.FOLDER).mkdir(exist_ok=True)
    handle = os.open(root / journal.FOLDER / "build.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        if (root / _MARK).exists():
            shutil.rmtree(root / deployment.layout.sources / _BUILD, ignore_errors=True)
        (root / _MARK).write_text("")
        try:
            yield handle
        except ToolError as error:
            if error.details:  # it ended by itself, with errors in the sources: no halves
                (root / _MARK).unlink(missing_ok=True)
            raise
        (root / _MARK).unlink(missing_ok=True)
    finally:
        os.close(handle)


BUILD = DeployStep("build", "build the firmware", _build_step)

# ------------------------------------------------------------------------------------------------- signed, and flashed

_SIGNER = "STM32_SigningTool_CLI"
SIGNED = "Project_signed.bin"
_OPTIONS = ("-nk", "-t", "ssbl", "-hv", "2.3")
_ALIGN = "-align"  # newer versions put the image elsewhere without it, older ones do not know it


def _sign_step(deployment: Deployment, dry_run: bool) -> StepResult:
    folder = deployment.layout.firmware
    image = deployment.current(f"{folder}/{BINARY}")
    tool = tools.find(_SIGNER)
    if tool is None:
        return StepResult(skipped=f"{_SIGNER} was not found: it comes with STM32CubeProgrammer")
    if dry_run:
        return StepResult(note=f"would sign {folder}/{BINARY}")
    if image is None:
        return StepResult(skipped="no firmware was built")
    inputs = inputs_digest(digest(image), tool)
    if deployment.is_done(SIGN.name, inputs):
        return StepResult(skipped="signed before")
    files = {f"{folder}/{SIGNED}": _signed(tool, image)}
    return put(deployment, deployment.recorded(SIGN.name, inputs, files), dry_run)


def _signed(tool: Path, image: bytes) -> bytes:
    """The image with the header that the boot loader looks for."""
    try:
        known = tools.run([str(tool), "--help"], tool.parent, "asking the signing tool")
    except ToolError:
        known = ""
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, BINARY), Path(scratch, SIGNED)
        source.write_bytes(image)
        align = (_ALIGN,) if _ALIGN in known else ()
        command = [str(tool), "-s", "-bin", str(source), *_OPTIONS, *align, "-o", str(target)]
        tools.run(command, Path(scratch), "signing the firmware")
        if not target.is_file():
            raise ToolError("wrote nothing", where=str(tool))
        return target.read_bytes()


_PROGRAMMER = "STM32_Programmer_CLI"
_BOOT_LOADER, _APPLICATION = "FSBL image", "application image"  # areas of a board's flash map


def _flash_step(deployment: Deployment, dry_run: bool) -> StepResult:
    tool = tools.find(_PROGRAMMER)
    if tool is None and not dry_run:
        return StepResult(skipped=f"{_PROGRAMMER} was not found: it comes with STM32CubeProgrammer")
    commands = _commands(deployment, tool or Path(_PROGRAMMER), planned=dry_run)
    if dry_run:
        return StepResult(note="\n".join(["would run", *(shlex.join(command) for command in commands)]))
    if not commands:
        return StepResult(skipped="no signed firmware to flash" if not deployment.is_h7 else "no firmware was built")
    for command in commands:
        file = next(word for word in reversed(command) if word.endswith((".bin", ".hex", ".elf")))
        tools.run(command, deployment.root, f"flashing {file}")
    return StepResult(note=f"{count(len(commands), 'file')} {is_are(len(commands))} on the board")


def _commands(deployment: Deployment, tool: Path, planned: bool) -> list[list[str]]:
    """Nothing is flashed without the firmware itself; `planned`: as if all files were there."""
    layout, root = deployment.layout, deployment.root
    serial = deployment.config.settings.get("deployment.hardware_setup.stlink_serial_number")
    probe = [str(tool), "-c", "port=SWD", *([f"sn={serial}"] if serial else [])]
    if deployment.is_h7:
        image = f"{layout.firmware}/{ELF}"
        return [[*probe, "-d", image, "-s"]] if planned or deployment.current(image) else []
    board = find_board(deployment.config.board)
    loader = layout.loader or board.flash_loader
    reach = ["mode=HOTPLUG", *(["-el", str(tool.parent / "ExternalLoader" / loader)] if loader else []), "-hardRst"]
    signed = f"{layout.firmware}/{SIGNED}"
    if not (planned or (root / signed).is_file()):
        return []
    # not the weights of an earlier model
    weights = planned or any(file.endswith(".hex") for file in deployment.outputs("generate"))
    files = [layout.fsbl, f"{layout.network}/{HEX}" if weights else ""]
    found = [
        [*probe, *reach, "-w", file, *([_start(board, _BOOT_LOADER)] if file.endswith(".bin") else [])]  # else its own
        for file in files
        if file and (planned or (root / file).is_file())
    ]
    return [*found, [*probe, *reach, "-w", signed, _start(board, _APPLICATION)]]


def _start(board: Board, area: str) -> str:
    found = board.area(area)
    if found is None:
        raise InputError(f"there is no area {area!r}", where=board.file or board.name, remedy="say where it lies")
    return f"{found.base:#x}"


SIGN = DeployStep("sign", "sign the firmware", _sign_step)
FLASH = DeployStep("flash", "flash the board", _flash_step)

# ------------------------------------------------------------------------------------------------------- in their order


@dataclass(frozen=True)
class FinishedStep:
    step: str
    what: str
    seconds: float
    result: StepResult


def steps_of(deployment: Deployment) -> list[DeployStep]:
    if deployment.config.is_mpu:
        what = f"{deployment.config.board} runs Linux: there is no firmware to make"
        raise UnsupportedError(what, where=deployment.config.settings.where("deployment.hardware_setup.serie"))
    if deployment.is_h7:
        return [HEADER, NETWORK, PATCH, BUILD, FLASH]
    if deployment.config.serie != "STM32N6":
        what = f"firmware for the {deployment.config.serie} is not built; its header is"
        if deployment.wishes.until != HEADER.name:
            raise UnsupportedError(what, remedy=f"write --until {HEADER.name}")
        return [HEADER]
    return [GENERATE, HEADER, NETWORK, INITIALISERS, BUILD, SIGN, FLASH]


def deploy(deployment: Deployment, dry_run: bool, say: Callable[[FinishedStep], None]) -> list[FinishedStep]:
    """Every step, up to the one that the user named; `say` hears of each as it ends."""
    chosen, until = steps_of(deployment), deployment.wishes.until
    names = [step.name for step in chosen]
    if until and until not in names:
        raise InputError(f"there is no step {until!r}", where="--until", remedy=f"choose from {', '.join(names)}")
    chosen = chosen[: names.index(until) + 1] if until else chosen
    if not dry_run:
        journal.recover(deployment.root)
    done: list[FinishedStep] = []
    waiting: list[FinishedStep] = []
    for step, following in zip_longest(chosen, chosen[1:]):
        started = time.perf_counter()
        result = step.run(deployment, dry_run)
        waiting.append(FinishedStep(step.name, step.what, time.perf_counter() - started, result))
        if not (step.drafts and following is not None and following.drafts):
            files = {file: data for one in waiting for file, data in one.result.files.items()}
            backup = [file for one in waiting for file in one.result.backup]
            if files:
                needed = next((file for file in files if file.endswith("/network.c")), "")
                journal.commit(deployment.root, files, backup, needed)
            for one in waiting:
                say(one)
            done, waiting = [*done, *waiting], []
    return done
