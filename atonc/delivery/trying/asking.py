"""`atonc board try`: the probe firmware in a board's RAM, driven through a debugger, until every probe has its answer.

What is kept is the log, which only grows by whole lines, as the firmware has told them: whoever starts again asks what
has no line yet. A probe that stops the chip gets the answer `hang`, and the next one is asked after a reset.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from atonc.delivery.probes.log import (
    BEGIN,
    END,
    HANG,
    LOG_FORMAT,
    MARK,
    MAX_BYTES,
    SELF_TEST,
    findings_in,
    parse_log,
    signed,
    told_in,
)
from atonc.delivery.trials import mailbox
from atonc.delivery.trials.mailbox import HEAD_BYTES, Mailbox
from atonc.delivery.trying.probe_image import ImageProbe, ProbeImage
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ToolError, plain
from atonc.machine.base.frozen import dataclass

LOG = "board.log"
_THUMB = 1 << 24  # of the program status
_SHOWN = 1024  # bytes of each part of the image that are read back
_START_S, _PROBE_S = 60.0, 30.0  # the watchdog of the firmware ends what hangs long before
_HALT_S, _ROM_S = 5.0, 0.5
_START_UP = "start-up"
_TRIES = 2  # of reading a line that comes damaged

Say = Callable[[str, str, int], None]  # probe, answer, number


class CoreStop(Protocol):
    """Why a core stands still."""

    @property
    def kind(self) -> str: ...
    @property
    def pc(self) -> int | None: ...


class DebugTarget(Protocol):
    """What a debugger can do (`gdb_target.GdbTarget`); the virtual board in this process can too."""

    def reset(self) -> None: ...
    def read(self, address: int, size: int) -> bytes: ...
    def write(self, address: int, data: bytes) -> None: ...
    def register(self, name: str) -> int: ...
    def set_register(self, name: str, value: int) -> None: ...
    def break_at(self, address: int) -> None: ...
    def go(self) -> None: ...
    def wait(self, seconds: float) -> CoreStop | None: ...
    def interrupt(self) -> object: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class AskedProbe:
    """One probe asked again, for its bytes: what lay in the board's memory."""

    probe: ImageProbe
    line: str
    given: bytes
    found: bytes


class TrialLog:
    """The log in a folder. It grows by whole lines; one that was cut off when a run was killed is forgotten."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def text(self) -> str:
        if not self.path.exists():
            return ""
        data = read_file(self.path, MAX_BYTES)
        return data[: data.rfind(b"\n") + 1].decode("ascii", "replace")

    def trim(self) -> None:
        """Forgets a line that was cut off."""
        if self.path.exists():
            os.truncate(self.path, len(self.text()))

    def append(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(f"{line}\n".encode("ascii"))
            file.flush()
            os.fsync(file.fileno())

    def told(self) -> dict[str, str]:
        """Probe (or begin, end, self-test) -> the last line about it."""
        lines = self.text().splitlines()
        return {about[0]: line for line in lines if (about := told_in(line)) is not None}

    def findings(self) -> tuple[str, ...]:
        """What the self-test has found, each once."""
        return findings_in(self.text())


class Trial:
    """One firmware, one board, one log. `options`: of the mailbox."""

    def __init__(self, image: ProbeImage, target: DebugTarget, log: TrialLog, options: int, say: Say) -> None:
        self.image, self.target, self.log, self.options, self.say = image, target, log, options, say

    def run(self) -> None:
        """Until every probe has its answer and the firmware its last line."""
        self.log.trim()
        self._check_log()
        first = self.first_missing()
        while first is not None:
            asked = self._ask_from(first)
            first = self.first_missing()
            if first is not None and first < asked:
                raise InputError(f"{self.image.probes[first].name} gives no answer", where=str(self.log.path))

    def first_missing(self) -> int | None:
        """The number of the first probe without an answer; behind the last one while the log has no end."""
        told = self.log.told()
        open_ones = (k for k, probe in enumerate(self.image.probes) if probe.name not in told)
        return next(open_ones, None if END in told else len(self.image.probes))

    def _check_log(self) -> None:
        """Answers of another firmware or board are no part of this run."""
        text = self.log.text()
        if BEGIN not in self.log.told():
            return
        head, image = parse_log(text, str(self.log.path)).head, self.image
        before = _who(head.emulated, head.board, head.version, head.probes)
        now = _who(bool(self.options & mailbox.EMULATED), image.board, image.version, len(image.probes))
        if before != now:
            raise InputError(
                f"the folder has answers of {before}; this is {now}",
                where=str(self.log.path),
                remedy="give another folder with -o, or --fresh to forget those answers",
            )

    # ------------------------------------------------------------------------------------------------- one start

    def _ask_from(self, first: int) -> int:
        """Starts the firmware; ends with its last line, or where it has to be started again. How far it got."""
        run = _Start(self, first)
        while (line := run.next_line()) is not None:
            before = self.log.told().get(BEGIN) if run.about == BEGIN else None
            if before is None and not (run.about == SELF_TEST and line in self.log.text().splitlines()):
                self.log.append(line)
            elif before not in (None, line):
                raise InputError(
                    f"the board has started otherwise than before: {line}",
                    where=str(self.log.path),
                    rule=f"the answers so far are of: {before}",
                    remedy="power the board off and on and try again, or begin anew with --fresh",
                )
            if run.answer and run.about not in (BEGIN, END, SELF_TEST):
                self.say(run.about, run.answer, run.number - 1)
        return run.number

    def ask_again(self, number: int) -> AskedProbe:
        """One probe alone, and the bytes that it leaves; nothing is added to the log."""
        probe = self.image.probes[number]
        run = _Start(self, number)
        line = run.next_line()
        while line is not None and run.about in (BEGIN, SELF_TEST):
            line = run.next_line()
        if line is None or run.about != probe.name:
            raise ToolError("the probe gave no second answer", where=probe.name, remedy="run the same command again")
        given = self.target.read(probe.input, len(probe.stimulus))
        return AskedProbe(probe, line, given, self.target.read(probe.output, len(probe.expected)))

    def _forgotten(self) -> int | None:
        """Writes the image; an address where RAM does not keep it."""
        for part in self.image.firmware.segments:
            self.target.write(part.address, part.data)
            if self.target.read(part.address, min(_SHOWN, len(part.data))) != part.data[:_SHOWN]:
                return part.address
        return None

    def load(self, first: int) -> None:
        """Everything anew: what ran before has changed its data."""
        target, image = self.target, self.image
        target.reset()
        if self._forgotten() is not None:
            target.go()  # a chip whose boot ROM has to open RAM and debug port first
            if target.wait(_ROM_S) is None:
                target.interrupt()
                target.wait(_HALT_S)
            if (place := self._forgotten()) is not None:
                raise ToolError(
                    f"RAM at {place:#010x} does not keep what is written",
                    rule="the firmware runs from AXISRAM1",
                    remedy="boot switches in development mode, then power the board off and on",
                )
        target.write(image.mailbox, mailbox.nothing())
        offset, asked = mailbox.request(first, self.options)
        target.write(image.mailbox + offset, asked)
        stack, reset = (int.from_bytes(target.read(image.firmware.vector_table + k, 4), "little") for k in (0, 4))
        target.set_register("sp", stack)
        target.set_register("xpsr", _THUMB)
        target.set_register("pc", reset & ~1)
        target.break_at(image.checkpoint)


def _who(emulated: bool, board: str, version: str, probes: int) -> str:
    return f"{'the virtual ' if emulated else ''}{board}, firmware {version} with {probes} probes"


class _Start:
    """One start of the firmware: its lines, one at a time, as it reaches its checkpoints."""

    def __init__(self, trial: Trial, first: int) -> None:
        self.trial, self.number = trial, first  # of the probe whose answer comes next
        self.about = ""  # what the last line was about
        self.answer = ""  # and its verdict
        self._read = 0  # bytes of the log
        self._lines: list[str] = []
        self._over = False
        trial.load(first)

    @property
    def _where(self) -> str:
        return f"mailbox at {self.trial.image.mailbox:#010x}"

    def next_line(self) -> str | None:
        while not self._lines and not self._over:
            self._on()
        if not self._lines:
            return None
        line = self._lines.pop(0)
        self._check(line)
        return line

    def _on(self) -> None:
        target, image = self.trial.target, self.trial.image
        target.go()
        stop = target.wait(_PROBE_S if self.about else _START_S)
        if stop is None or stop.pc is None or stop.pc & ~1 != image.checkpoint:
            self._lost(stop)
            return
        box = mailbox.parse(target.read(image.mailbox, HEAD_BYTES), self._where)
        if box.board != image.board:
            raise InputError(
                f"the firmware that runs is for {plain(box.board)}",
                where=self._where,
                rule=f"the one that was loaded is for {image.board}",
                remedy="reset the board and try again",
            )
        if box.lost:
            raise InputError(f"{box.lost} lines did not fit into the mailbox", where=self._where)
        self._lines = self._new_lines(box)
        self._over = box.state != mailbox.RUNS

    def _new_lines(self, box: Mailbox) -> list[str]:
        start = self.trial.image.mailbox + HEAD_BYTES + self._read
        size = box.length - self._read
        if size < 0:
            raise InputError(f"the log in the mailbox became shorter by {-size} bytes", where=self._where)
        for _ in range(_TRIES):
            text = self.trial.target.read(start, size).decode("ascii", "replace") if size else ""
            lines = text.splitlines()
            if (not text or text.endswith("\n")) and all(told_in(line) is not None for line in lines):
                self._read = box.length
                return lines
        odd = next((line for line in lines if told_in(line) is None), text)
        raise InputError(
            f"a damaged line in the mailbox: {plain(odd)[:80]!r}",
            where=self._where,
            rule="every line has its checksum",
            remedy="run the same command again: it goes on behind the last whole line; a shorter cable or a slower "
            "debug clock may be needed",
        )

    def _check(self, line: str) -> None:
        """Answers come in the order of the table, after the first line."""
        image, told = self.trial.image, told_in(line)
        assert told is not None
        name, answer = told
        if name == _START_UP:
            raise ToolError(
                f"the firmware stopped before its first line: {line}",
                rule="its start-up met a fault",
                remedy="power the board off and on, then try again; --on-chip leaves external memories out",
            )
        begun, self.about = bool(self.about), name
        if (name == BEGIN) == begun:
            raise InputError(f"{plain(name)} at a place where the log does not have it", where=self._where)
        if name in (BEGIN, END, SELF_TEST):
            return
        if self.number >= len(image.probes) or image.probes[self.number].name != name:
            asked = image.probes[self.number].name if self.number < len(image.probes) else "nothing"
            raise InputError(
                f"{plain(name)} answered, {asked} was asked",
                where=self._where,
                rule="the firmware that runs is the one that was loaded",
            )
        self.answer = answer
        self.number += 1

    def _lost(self, stop: CoreStop | None) -> None:
        """No checkpoint came: the probe that was asked has stopped the chip, or the core stands somewhere else."""
        trial = self.trial
        if not self.about or self.number >= len(trial.image.probes):
            raise self._dead(stop)
        place = self._place(stop)
        name = trial.image.probes[self.number].name
        self._lines = [signed(f"{MARK} {LOG_FORMAT} {name} {HANG} runs=0 why=the_chip_stopped_{place}")]
        self._over = True

    def _place(self, stop: CoreStop | None) -> str:
        try:
            if stop is None:
                self.trial.target.interrupt()
                self.trial.target.wait(_HALT_S)
            return f"at_{self.trial.target.register('pc') & ~1:#010x}"
        except ToolError:
            return "and_the_debugger_cannot_halt_it"

    def _dead(self, stop: CoreStop | None) -> ToolError:
        what = "does not end" if self.about else f"says nothing within {_START_S:g} s of its start"
        return ToolError(
            f"the firmware {what}: the core is {self._place(stop).replace('_', ' ')}",
            rule="it reaches its checkpoint after every line",
            remedy="boot switches in development mode, power off and on, then the same command again; with --on-chip "
            "external memories are left as they are",
        )
