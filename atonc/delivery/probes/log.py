"""The log of the probe firmware as it came over the board's UART: every line with its checksum, the rest is noise.

    ATONC-PROBE 1 begin board=<board> version=<v> probes=<count> cpu_hz=.. npu_hz=.. ram_hz=.. *<crc>
    ATONC-PROBE 1 <name> <verdict> cycles=.. runs=.. first=.. got=.. want=.. why=.. *<crc>
    ATONC-PROBE 1 end answered=<count> *<crc>

The checksum is CRC-16/CCITT-FALSE over everything in front of ` *`. Terminals add colours, time stamps and line ends of
their own, lose characters and print lines twice; none of that may become an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, replace
from pathlib import Path

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

PASS, WRONG, HANG, SKIPPED = VERDICTS = ("pass", "wrong", "hang", "skipped")
FORMAT = 1
_MARK, _BEGIN, _END = "ATONC-PROBE", "begin", "end"
MAX_BYTES = 1 << 22
_LONGEST = 400  # characters of a line of ours
_MOST_ANSWERS = 4096
_MOST_DAMAGED = 10  # whose numbers are kept
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]?[@-~]|[@-Z\\-_])")
_LINE = re.compile(rf"{_MARK} (\d{{1,4}}) ([a-z0-9][a-z0-9-]{{0,63}})((?: [!-~]+)*) \*([0-9A-F]{{4}})")
_NUMBERS = {"cycles": 1 << 40, "runs": 1 << 20, "first": 1 << 32}  # at most
_BYTES = re.compile(r"[0-9A-Fa-f]{1,64}")
_WORD = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_FASTEST_HZ = 10_000_000_000


@dataclass(frozen=True)
class Reply:
    """What the silicon made of one probe."""

    probe: str
    verdict: str
    line: int  # of the log
    cycles: int = 0  # of the NPU, the fewest of all runs; 0: not counted
    runs: int = 0
    first: int | None = None  # the first wrong byte
    got: str = ""
    want: str = ""
    why: str = ""

    def as_dict(self) -> dict[str, int | str]:
        """Gives what was read, without what the firmware did not say."""
        told = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return {name: value for name, value in told.items() if name != "line"}


@dataclass(frozen=True)
class Head:
    """What the firmware says of itself and of the board."""

    board: str
    version: str
    probes: int
    cpu_hz: int  # 0: the firmware could not tell
    npu_hz: int
    ram_hz: int


@dataclass(frozen=True)
class ProbeLog:
    head: Head
    replies: Mapping[str, Reply]  # by probe, in the order of the log
    damaged: int = 0  # lines of ours whose checksum or contents are wrong
    damaged_lines: tuple[int, ...] = ()  # the first of them
    complete: bool = False  # the last line of the firmware came
    lost: int = 0  # answers that the firmware gave and that are not here


@dataclass
class _Reading:
    """What was found so far."""

    where: str
    head: Head | None = None
    replies: dict[str, Reply] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list)
    answered: int | None = None


def read_log(path: Path) -> ProbeLog:
    return parse_log(read_file(path, MAX_BYTES).decode("ascii", "replace"), str(path))


def parse_log(text: str, where: str = "the log") -> ProbeLog:
    reading = _Reading(where)
    marked = 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", _ANSI.sub("", text)), 1):
        for part in line.split(_MARK)[1:]:  # a lost line end puts two of ours into one
            marked += 1
            _take(reading, number, (_MARK + part[: _LONGEST + 1]).rstrip())
    if reading.head is None:
        raise _headless(where, marked)
    return _log(reading, reading.head)


def checksum(text: str) -> str:
    """CRC-16/CCITT-FALSE, four digits."""
    crc = 0xFFFF
    for byte in text.encode("ascii", "replace"):
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return f"{crc:04X}"


def signed(text: str) -> str:
    """A line as the firmware sends it: for whoever writes a log."""
    return f"{text} *{checksum(text)}"


def _headless(where: str, marked: int) -> InputError:
    if marked:
        return InputError(
            "the first line of the firmware is missing or damaged: nobody knows which board answered",
            where=where,
            rule=f"a log begins with `{_MARK} {FORMAT} {_BEGIN} board=...`",
            remedy="open the terminal first (115200 baud, 8N1), then reset the board",
        )
    return InputError(
        "no line of the probe firmware is in it",
        where=where,
        rule=f"its lines begin with `{_MARK}`",
        remedy="save what the board's virtual COM port prints at 115200 baud, 8N1 (docs/first_hour.md)",
    )


def _log(reading: _Reading, head: Head) -> ProbeLog:
    said = reading.answered
    return ProbeLog(
        head,
        reading.replies,
        len(reading.damaged),
        tuple(reading.damaged[:_MOST_DAMAGED]),
        said is not None,
        max(0, (said or 0) - len(reading.replies)),
    )


# --------------------------------------------------------------------------------------------------------- line by line


def _take(reading: _Reading, number: int, line: str) -> None:
    match = _LINE.fullmatch(line) if len(line) <= _LONGEST else None
    if match is None or checksum(line[: match.end(3)]) != match[4]:
        reading.damaged.append(number)
        return
    _require_format(int(match[1]), f"{reading.where}, line {number}")
    try:
        _understand(reading, number, match[2], match[3].split())
    except (ValueError, KeyError):
        reading.damaged.append(number)


def _require_format(found: int, where: str) -> None:
    if found != FORMAT:
        raise InputError(
            f"a log of format {found}",
            where=where,
            rule=f"this version of atonc reads format {FORMAT}",
            remedy="write and build the firmware with the atonc that reads its log",
        )


def _understand(reading: _Reading, number: int, name: str, words: list[str]) -> None:
    if name == _BEGIN:
        _begin(reading, number, _head(dict(_pairs(words))))
    elif name == _END:
        reading.answered = _count(dict(_pairs(words))["answered"], _MOST_ANSWERS)
    else:
        _keep(reading, _read_reply(number, name, words))


def _begin(reading: _Reading, number: int, head: Head) -> None:
    if reading.head not in (None, head):
        raise InputError(
            f"begins anew in line {number} with another board, firmware or clock",
            where=reading.where,
            remedy="one file for each run: delete what is in front of that line, or behind it",
        )
    reading.head = head


def _head(said: Mapping[str, str]) -> Head:
    clocks = [_count(said[name], _FASTEST_HZ) for name in ("cpu_hz", "npu_hz", "ram_hz")]
    return Head(_word(said["board"]), _word(said["version"]), _count(said["probes"], _MOST_ANSWERS), *clocks)


def _read_reply(number: int, name: str, words: list[str]) -> Reply:
    if not words or words[0] not in VERDICTS:
        raise ValueError("verdict")
    values: dict[str, int | str] = {}
    for key, text in _pairs(words[1:]):
        if key in _NUMBERS:
            values[key] = _count(text, _NUMBERS[key])
        elif key == "why" or (key in ("got", "want") and _BYTES.fullmatch(text)):
            values[key] = text
        else:
            raise ValueError(key)
    return replace(Reply(name, words[0], number), **values)  # type: ignore[arg-type]


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    """`why` is a sentence: it takes what is left of the line."""
    for place, word in enumerate(words):
        key, mark, value = word.partition("=")
        if not mark:
            raise ValueError(word)
        if key == "why":
            yield key, " ".join([value, *words[place + 1 :]])
            return
        yield key, value


def _keep(reading: _Reading, new: Reply) -> None:
    """A line that came twice is one; of two runs with the same verdict the faster one counts, as inside a run."""
    old = reading.replies.get(new.probe)
    if old is None or old.verdict == SKIPPED:
        if len(reading.replies) >= _MOST_ANSWERS:
            raise InputError(f"more than {_MOST_ANSWERS} probes answered", where=reading.where)
        reading.replies[new.probe] = new
    elif new.verdict not in (old.verdict, SKIPPED):
        raise InputError(
            f"{new.probe}: {old.verdict} in line {old.line}, {new.verdict} in line {new.line}",
            where=reading.where,
            rule="a board that answers one question in two ways has answered nothing",
            remedy="let the firmware run again, on another supply or at lower clocks; send both logs to the project",
        )
    elif 0 < new.cycles < old.cycles:
        reading.replies[new.probe] = new


def _count(text: str, most: int) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 15 or int(text) > most:
        raise ValueError(text)
    return int(text)


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError(text)
    return text
