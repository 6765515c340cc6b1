"""From a firmware and a debug target to a folder: log, evidence file, one recording, a summary."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from atonc.compiler.place import BoardMemory, board
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.log import PASS, Head, Settled, evidence_bytes, parse_log, require_answers, settle
from atonc.delivery.recordings import store
from atonc.delivery.recordings.store import (
    EXPECTED,
    INPUTS,
    OUTPUTS,
    VIRTUAL,
    RanWith,
    RecordedBlock,
    RecordedTensor,
    Recording,
    Statement,
)
from atonc.delivery.trials import gdb_servers, mailbox
from atonc.delivery.trials.gdb_target import GdbTarget, started_target
from atonc.delivery.trying.asking import LOG, AskedProbe, DebugTarget, Say, Trial, TrialLog
from atonc.delivery.trying.probe_image import ProbeImage, built_image, cache_folder, flash_base, read_image
from atonc.delivery.trying.virtual_target import VirtualTarget
from atonc.delivery.wire.messages import STM32N6
from atonc.machine.base.about import __version__
from atonc.machine.base.build_folder import folder_lock
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.emu.board import VirtualBoard
from atonc.machine.emu.board.chip import ChipSetup

EVIDENCE, RECORDING, SUMMARY = "evidence.json", "recording.npz", "summary.txt"
RECORDED = "control-conv-3x3"  # an NPU configuration that ST programs have


@dataclass(frozen=True)
class TryOptions:
    board: str
    folder: Path
    firmware: Path | None = None  # None: it is built
    gdb: str = ""  # HOST:PORT of a server that runs
    server: str = ""  # which one to start; "": the first that is installed
    virtual: bool = False
    on_chip: bool = False  # leave external memories alone
    fresh: bool = False
    licence: str = ""  # of the recording


@dataclass(frozen=True)
class Tried:
    options: TryOptions
    image: ProbeImage
    server: str  # who was asked, in words
    settled: Settled
    recording: Recording | None
    findings: tuple[str, ...]  # of the self-test; none: the set-up is sound
    files: tuple[Path, ...]


def try_board(options: TryOptions, say: Say) -> Tried:
    """Goes on where an earlier call was interrupted."""
    target = board(options.board)
    for name in (LOG, EVIDENCE, RECORDING, SUMMARY):
        if (options.folder / name).is_symlink():
            raise InputError("a link", where=str(options.folder / name), remedy="remove it, or give another folder: -o")
    if options.fresh:
        for name in (LOG, EVIDENCE, RECORDING, SUMMARY):
            (options.folder / name).unlink(missing_ok=True)
    image = read_image(options.firmware or built_image(target, cache_folder()))
    if image.board != target.name:
        raise InputError(
            f"the firmware was built for {image.board}", where=str(image.firmware.path), remedy=f"--board {image.board}"
        )
    with connected(options, image, target) as line:
        asked = (mailbox.EMULATED if line.emulated else 0) | (mailbox.ON_CHIP if options.on_chip else 0)
        trial = Trial(image, line.target, TrialLog(options.folder), asked, say)
        options.folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(options.folder):
            try:
                trial.run()
            except ToolError as error:
                kept = trial.log.text().count("\n")
                error.remedy = f"{error.fix}; the same command goes on where it stopped" if kept else error.fix
                raise
            return written(options, trial, line.name)


def written(options: TryOptions, trial: Trial, server: str) -> Tried:
    """Everything that follows from the log, and one probe's bytes."""
    folder, text = options.folder, trial.log.text()
    settled = settle(parse_log(text, str(trial.log.path)), PROBES)
    require_answers(settled, str(trial.log.path))
    findings = trial.log.findings()
    if findings:  # a wrong set-up would be taken for what the NPU cannot do
        (folder / EVIDENCE).unlink(missing_ok=True)
    else:
        write_file(folder / EVIDENCE, evidence_bytes(settled))
    recording = _recorded(options, trial, settled)
    files = tuple(path for name in (LOG, EVIDENCE, RECORDING) if (path := folder / name).exists())
    return Tried(options, trial.image, server, settled, recording, findings, files)


def _recorded(options: TryOptions, trial: Trial, settled: Settled) -> Recording | None:
    """That of an earlier call, else of one probe that is asked again; None where none has passed."""
    path = options.folder / RECORDING
    if path.exists():
        return store.read(path)
    names = [probe.name for probe in trial.image.probes]
    passed = [name for name in names if (one := settled.log.replies.get(name)) and one.verdict == PASS]
    if not passed:
        return None
    stage("recording one probe")
    asked = trial.ask_again(names.index(RECORDED if RECORDED in passed else passed[0]))
    log = parse_log("\n".join([trial.log.text(), asked.line]))
    stated = Statement(VIRTUAL if settled.log.head.emulated else trial.image.board, options.licence)
    found = recording_of(asked, settled.log.head, log.replies[asked.probe.name].cycles, stated)
    store.write(path, found)
    return found


def recording_of(asked: AskedProbe, head: Head, cycles: int, stated: Statement) -> Recording:
    """One small program as a board ran it; its words stand for the model."""
    probe = asked.probe
    arrays = {
        f"{side}_1": np.frombuffer(data, np.int8)[None]
        for side, data in ((INPUTS, asked.given), (OUTPUTS, asked.found), (EXPECTED, probe.expected))
    }
    digest = hashlib.sha256(probe.program + probe.stimulus).hexdigest()
    core = round(cycles * head.cpu_hz / head.npu_hz)
    return Recording(
        stated=stated,
        ran_with=RanWith(__version__, f"probes {head.version}, {probe.name}", STM32N6, head.cpu_hz, head.npu_hz),
        model_sha256=digest,
        program=digest,
        inputs=(RecordedTensor((len(asked.given),), "|i1", 0.0, 0),),
        outputs=(RecordedTensor((len(asked.found),), "|i1", 0.0, 0),),
        milliseconds=(1e3 * cycles / head.npu_hz,),
        blocks=(RecordedBlock(0, 0, 0, core, 0),),
        arrays=arrays,
    )


# ------------------------------------------------------------------------------------------------------- who is asked


@dataclass(frozen=True)
class DebugLine:
    """A debug target and how it is called; `emulated`: nothing that it answers is about silicon."""

    name: str
    target: DebugTarget
    emulated: bool


@contextlib.contextmanager
def connected(options: TryOptions, image: ProbeImage, target: BoardMemory) -> Iterator[DebugLine]:
    """A server that was started here is ended."""
    if options.virtual:
        yield DebugLine("the virtual board", VirtualTarget(lambda: virtual_board(image, target)), True)
    elif options.gdb:
        with contextlib.closing(GdbTarget(options.gdb)) as debugger:
            name = f"{debugger.dialect.name} at {debugger.address}"
            yield DebugLine(name, debugger, debugger.dialect is gdb_servers.OURS)
    else:
        with _started(options.server) as line:
            yield line


def virtual_board(image: ProbeImage, target: BoardMemory) -> VirtualBoard:
    """A chip in reset, which refuses what a real one does; the image for flash is programmed."""
    found = VirtualBoard(image.firmware, clocks={}, chip=ChipSetup())
    if image.flash_image is not None:
        found.poke(flash_base(target), np.fromfile(image.flash_image, np.uint8))
    return found


@contextlib.contextmanager
def _started(name: str) -> Iterator[DebugLine]:
    try:
        found = gdb_servers.find_server(name)
    except ToolError as error:
        error.remedy += "; without a board, atonc board try --virtual goes the same way on the virtual board"
        raise
    port = _free_port()
    stage(f"starting {found.path.name}")
    with gdb_servers.started(found, port) as server, contextlib.closing(started_target(server, port)) as debugger:
        yield DebugLine(f"{found.program.dialect.name}, started as {found.path}", debugger, False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
