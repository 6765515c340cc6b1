"""The log of the probe firmware as it came from the board's RAM or UART, what it settles, and the evidence file of it.

    ATONC-PROBE 1 begin board=<board> version=<v> probes=<count> cpu_hz=.. npu_hz=.. ram_hz=.. clocks=.. external=..
        fuses=untouched *<crc>
    ATONC-PROBE 1 <name> <verdict> cycles=.. runs=.. first=.. got=.. want=.. why=.. *<crc>
    ATONC-PROBE 1 end answered=<count> *<crc>

The checksum is CRC-16/CCITT-FALSE over everything in front of ` *`. Terminals add colours, time stamps and line ends of
their own, lose characters and print lines twice; none of that may become an answer.

A probe settles what its program shows and published programs do not, or hardly: its features that are neither seen nor
within. A pass confirms these. A failure refutes those of them that no passing probe shows, and the argument that allows
them. A probe whose control did not pass says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from atonc.delivery.probes import convolutions, sums
from atonc.delivery.probes.bench import Probe
from atonc.delivery.probes.build import bound, c_name
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import wide_sums
from atonc.machine.hw.board import find_board
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.machine import SPEEDS, Machine, implausible
from atonc.machine.hw.safety.evidence import Feature, Grade, grade_feature
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board_file import FORMAT, VERSION, BoardEvidence, evidence_row
from atonc.machine.hw.safety.evidence.epochs import view_features
from atonc.machine.hw.safety.evidence.unit_features import NARROW, NARROW_DEEP
from atonc.machine.hw.safety.view import EpochView, SafetyContext

PASS, WRONG, HANG, SKIPPED = VERDICTS = ("pass", "wrong", "hang", "skipped")
LOG_FORMAT = 1
BOARD_CLOCKS, SLOW, CHIP, EMULATOR = "board", "slow", "chip", "emulator"  # values of the first line
MARK, BEGIN, END = "ATONC-PROBE", "begin", "end"
_FINDINGS = "findings="  # how many, in its first line
SELF_TEST = "ATONC-SELFTEST"  # begins lines of the self-test
_LONGEST_FINDING = 512
MAX_BYTES = 1 << 22
_LONGEST = 400  # characters of a line of ours
_MOST_ANSWERS = 4096
_MOST_DAMAGED = 10  # whose numbers are kept
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]?[@-~]|[@-Z\\-_])")
_LINE = re.compile(rf"{MARK} (\d{{1,4}}) ([a-z0-9][a-z0-9-]{{0,63}})((?: [!-~]+)*) \*([0-9A-F]{{4}})")
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
    clocks: str = ""  # whose they are, or why they are not the board's
    external: str = ""  # SLOW: the firmware itself has mapped flash and external RAM, below the board's speed
    emulated: bool = False  # an emulator answered: nothing follows about silicon


@dataclass(frozen=True)
class ProbeLog:
    head: Head
    replies: Mapping[str, Reply]  # by probe, in the order of the log
    damaged: int = 0  # lines of ours whose checksum or contents are wrong
    damaged_lines: tuple[int, ...] = ()  # the first of them
    complete: bool = False  # the last line of the firmware came
    lost: int = 0  # answers that the firmware gave and that are not here
    findings: tuple[str, ...] = ()  # of the self-test; none: the set-up is sound, or was not looked at


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
        for part in line.split(MARK)[1:]:  # a lost line end puts two of ours into one
            marked += 1
            _take(reading, number, (MARK + part[: _LONGEST + 1]).rstrip())
    if reading.head is None:
        raise _headless(where, marked)
    said = reading.answered
    return ProbeLog(
        reading.head,
        reading.replies,
        len(reading.damaged),
        tuple(reading.damaged[:_MOST_DAMAGED]),
        said is not None,
        max(0, (said or 0) - len(reading.replies)),
        findings_in(text),
    )


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


def told_in(line: str) -> tuple[str, str] | None:
    """Which probe (or `begin`, `end`) a whole line of the firmware is about, and the first word of what it says; None
    where the line is damaged or none of the firmware's."""
    match = _LINE.fullmatch(line) if len(line) <= _LONGEST else None
    if match is None:
        found = finding_in(line)
        return None if found is None else (SELF_TEST, found)
    if int(match[1]) != LOG_FORMAT or checksum(line[: match.end(3)]) != match[4]:
        return None
    return match[2], (match[3].split() or [""])[0]


def finding_in(line: str) -> str | None:
    """What a whole line of the self-test says; None where it is damaged or another one."""
    body, mark, digits = line.rpartition(" *")
    head = f"{SELF_TEST} {LOG_FORMAT} "
    usable = len(line) <= _LONGEST_FINDING and line.isascii() and line.isprintable() and body.startswith(head)
    return body.removeprefix(head) if usable and mark and checksum(body) == digits else None


def findings_in(text: str) -> tuple[str, ...]:
    """What the self-test has found, each once."""
    told = dict.fromkeys(filter(None, map(finding_in, text.splitlines())))
    found = tuple(one for one in told if not one.startswith(_FINDINGS))
    return found or tuple(f"{one}, their lines are lost" for one in told if one != f"{_FINDINGS}0")


def _headless(where: str, marked: int) -> InputError:
    if marked:
        return InputError(
            "the first line of the firmware is missing or damaged: the board is unknown",
            where=where,
            rule=f"a log begins with `{MARK} {LOG_FORMAT} {BEGIN} board=...`",
            remedy="open the terminal first (115200 baud, 8N1), then reset the board",
        )
    return InputError(
        "no line of the probe firmware is in it",
        where=where,
        rule=f"its lines begin with `{MARK}`",
        remedy="save what the board's virtual COM port prints at 115200 baud, 8N1 (docs/first_hour.md)",
    )


# --------------------------------------------------------------------------------------------------------- line by line


def _take(reading: _Reading, number: int, line: str) -> None:
    match = _LINE.fullmatch(line) if len(line) <= _LONGEST else None
    if match is None or checksum(line[: match.end(3)]) != match[4]:
        reading.damaged.append(number)
        return
    if int(match[1]) != LOG_FORMAT:
        raise InputError(
            f"a log of format {int(match[1])}",
            where=f"{reading.where}, line {number}",
            rule=f"this version of atonc reads format {LOG_FORMAT}",
            remedy="write and build the firmware with the atonc that reads its log",
        )
    name, words = match[2], match[3].split()
    try:
        if name == BEGIN:
            _begin(reading, number, dict(_pairs(words)))
        elif name == END:
            reading.answered = _count(dict(_pairs(words))["answered"], _MOST_ANSWERS)
        else:
            _keep(reading, _read_reply(number, name, words))
    except (ValueError, KeyError):
        reading.damaged.append(number)


def _begin(reading: _Reading, number: int, said: Mapping[str, str]) -> None:
    cpu, npu, ram = (_count(said[name], _FASTEST_HZ) for name in ("cpu_hz", "npu_hz", "ram_hz"))
    clocks, external = (_word(said[name]) if name in said else "" for name in ("clocks", "external"))
    count, emulated = _count(said["probes"], _MOST_ANSWERS), {CHIP: False, EMULATOR: True}[said["on"]]
    head = Head(
        _word(said["board"]), _word(said["version"]), count, cpu, npu, ram, clocks=clocks, external=external,
        emulated=emulated,
    )  # fmt: skip
    if reading.head not in (None, head):
        raise InputError(
            f"begins anew in line {number} with another board, firmware or clock",
            where=reading.where,
            remedy="one file for each run: delete what is in front of that line, or behind it",
        )
    reading.head = head


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


_CPU = "cpu_"  # begins the names of constants that count cycles of the CPU
_SAME_CLOCK = 1.02  # as far as two clocks may be apart that are meant to be the same
_DIGITS = 6  # of a constant: more than any measurement has
_HARDLY_ANY = 3  # published programs behind a form that a failing probe may blame


@dataclass(frozen=True)
class Outcome:
    """What follows from the reply to one probe."""

    probe: Probe
    reply: Reply | None  # None: it did not answer
    silent: str = ""  # why it says nothing
    confirmed: frozenset[Feature] = frozenset()
    refuted: frozenset[Feature] = frozenset()
    distrusted: frozenset[str] = frozenset()
    supported: frozenset[str] = frozenset()
    constant: tuple[str, float] | None = None
    rate: float | None = None  # units a cycle
    refused: str = ""  # why what its cycles give is not taken


@dataclass(frozen=True)
class Settled:
    log: ProbeLog
    outcomes: tuple[Outcome, ...]
    evidence: BoardEvidence
    unknown: tuple[str, ...]  # probes that this version does not have


@dataclass(frozen=True)
class _Bench:
    """Probes and replies by name, and the machine of the board that answered."""

    log: ProbeLog
    probes: Mapping[str, Probe]
    machine: Machine
    shown: Mapping[str, frozenset[Feature]] = field(default_factory=dict)

    def silence(self, probe: Probe) -> str:
        """Why a probe says nothing; empty if it says something."""
        reply = self.log.replies.get(probe.name)
        if reply is None:
            return "no answer in the log"
        if reply.verdict not in (PASS, WRONG, HANG):
            return f"not asked{f': {reply.why}'.replace('_', ' ') if reply.why else ''}"
        control = self.probes.get(probe.control)
        return "" if control is None or self.passed(control) else f"says nothing: {control.name} did not pass"

    def passed(self, probe: Probe) -> bool:
        return not self.silence(probe) and self.log.replies[probe.name].verdict == PASS

    def failed(self, probe: Probe) -> bool:
        return not self.silence(probe) and not self.passed(probe)

    def working(self) -> frozenset[Feature]:
        """All that passing probes show."""
        return frozenset().union(*(self.shown[p.name] for p in self.probes.values() if self.passed(p)))


def settle(log: ProbeLog, probes: Iterable[Probe]) -> Settled:
    by_name = {probe.name: probe for probe in probes}
    bench = _Bench(log, by_name, find_board(log.head.board).require_npu().machine())
    speaking = [probe for probe in by_name.values() if not bench.silence(probe)]
    bench = replace(bench, shown={probe.name: features_of(probe) for probe in speaking})
    outcomes = tuple(_outcome(probe, bench) for probe in by_name.values())
    return Settled(log, outcomes, _evidence(outcomes, bench), tuple(n for n in log.replies if n not in by_name))


def _evidence(outcomes: Iterable[Outcome], bench: _Bench) -> BoardEvidence:
    outcomes = tuple(outcomes)
    refuted = frozenset().union(*(one.refuted for one in outcomes))
    confirmed = frozenset().union(*(one.confirmed for one in outcomes))
    distrusted = frozenset().union(*(one.distrusted for one in outcomes))
    asking = {a.id: [p for p in bench.probes.values() if a.id in _asks_about(p)] for a in ARGUMENTS}
    supported = {name for name, some in asking.items() if some and all(map(bench.passed, some))}
    four_bits = _four_bits(bench)
    if four_bits is None or not four_bits.deep:
        confirmed -= {NARROW_DEEP} if four_bits else {NARROW, NARROW_DEEP}
    return BoardEvidence(
        confirmed - refuted,
        refuted,
        distrusted,
        tuple(sorted(_usual(outcomes, bench.machine).items())),
        frozenset(supported) - distrusted,
        find_board(bench.log.head.board).name,
        four_bits,
        wide_sums=_wide_sums(bench),
        emulated=bench.log.head.emulated,
    )


# --------------------------------------------------------------------------------------------------------------- forms


@cache
def features_of(probe: Probe) -> frozenset[Feature]:
    """All that its program shows."""
    epochs = bound(c_name(probe), probe.build()).program.epochs
    return frozenset(feature for epoch in epochs for feature in view_features(EpochView(epoch, SafetyContext())))


def unpublished(features: Iterable[Feature]) -> frozenset[Feature]:
    return frozenset(one for one in features if grade_feature(one).grade not in (Grade.SEEN, Grade.WITHIN))


def _outcome(probe: Probe, bench: _Bench) -> Outcome:
    found = Outcome(probe, bench.log.replies.get(probe.name), bench.silence(probe))
    if found.silent:
        return found
    shown = bench.shown[probe.name]
    if bench.failed(probe):
        blamed = not probe.is_control and probe.of_configuration
        refuted = _blamed(shown, bench.working()) if blamed else frozenset()
        return _kernels_settled(replace(found, refuted=refuted, distrusted=_arguments(probe, refuted)))
    passed = replace(found, confirmed=unpublished(shown), supported=_asks_about(probe))
    return _measured(_kernels_settled(passed), bench)


def _kernels_settled(found: Outcome) -> Outcome:
    """Whether kernels of 4 bits may be used is for probes of convolutions to say. An answer that the compiler has no
    form for is a refusal too, although the probe passed."""
    asked = {**dict.fromkeys(convolutions.KERNELS_READ, NARROW), convolutions.KERNELS_DEEP: NARROW_DEEP}.get(
        found.probe.name
    )
    others, said = {NARROW, NARROW_DEEP} - {asked}, found.reply.why if found.reply else ""
    found = replace(found, confirmed=found.confirmed - others, refuted=found.refuted - others)
    if asked not in found.confirmed or said in convolutions.LOW_FIRST:
        return found
    refuted = {asked} if said else set()  # else the log has lost the answer
    return replace(found, confirmed=found.confirmed - {asked}, refuted=found.refuted | refuted)


def _four_bits(bench: _Bench) -> FourBits | None:
    """How the board reads kernels of 4 bits, from RAM and from flash alike; None where it does not say."""
    asked = [bench.probes[name] for name in convolutions.KERNELS_READ if name in bench.probes]
    if len(asked) < len(convolutions.KERNELS_READ) or not all(map(bench.passed, asked)):
        return None
    said = {bench.log.replies[probe.name].why for probe in asked}
    if len(said) > 1 or not said <= convolutions.LOW_FIRST.keys():
        return None
    deep = bench.probes.get(convolutions.KERNELS_DEEP)
    reads_deep = deep is not None and bench.passed(deep) and bench.log.replies[deep.name].why in said
    return FourBits(convolutions.LOW_FIRST[said.pop()], reads_deep, confirmed=True)


def _wide_sums(bench: _Bench) -> str:
    """What a CONVACC makes of sums beyond 24 bits; empty where the board does not say."""
    probe = bench.probes.get(sums.BEYOND)
    said = bench.log.replies[probe.name].why if probe is not None and bench.passed(probe) else ""
    return said if said in wide_sums.ANSWERS else ""


def _blamed(shown: frozenset[Feature], working: frozenset[Feature]) -> frozenset[Feature]:
    """What no published program has as a whole and no passing probe shows. Where that is nothing: what hardly any has;
    what other probes show to work, since here it does not; and at last what published programs have and no passing
    probe shows, words before numbers."""
    new, alone = unpublished(shown), shown - working
    composed = frozenset(one for one in new if grade_feature(one).grade.rank >= Grade.COMPOSED.rank)
    words = frozenset(one for one in alone if isinstance(one.value, str))
    hardly = frozenset(one for one in shown if grade_feature(one).strength.programs <= _HARDLY_ANY)
    return composed - working or new - working or new or hardly or words or alone


def _arguments(probe: Probe, refuted: Iterable[Feature]) -> frozenset[str]:
    """Those that stand and fall with the probe, else those that allowed what it refutes."""
    return _asks_about(probe) or frozenset(grade_feature(one).argument for one in refuted) - {""}


def _asks_about(probe: Probe) -> frozenset[str]:
    listed = {argument.id for argument in ARGUMENTS if probe.name in argument.probes}
    return frozenset({probe.argument} if probe.argument else listed)


# ----------------------------------------------------------------------------------------------------------- constants


def _measured(found: Outcome, bench: _Bench) -> Outcome:
    probe, what = found.probe, found.probe.measures or found.probe.rate
    if not what:
        return found
    if other := _other_clocks(what, bench):
        return replace(found, refused=f"{what}: {other}")
    baseline = bench.probes.get(probe.baseline)
    if probe.baseline and (baseline is None or not bench.passed(baseline)):
        return replace(found, refused=f"{what}: {probe.baseline} did not pass")
    first = bench.log.replies[probe.baseline].cycles if baseline else 0
    cycles, line = bench.log.replies[probe.name].cycles - first, bench.log.replies[probe.name].line
    if cycles <= 0:
        return replace(found, refused=f"{what}: no more cycles than {probe.baseline or 'none'} (line {line})")
    if probe.rate:
        return replace(found, rate=probe.units / cycles)
    value = _constant(probe, cycles, bench)
    doubt = implausible(probe.measures, value / bench.machine.clock_factor(probe.measures))
    if doubt:
        return replace(found, refused=f"{doubt} (line {line})")
    return replace(found, constant=(probe.measures, value))


def _other_clocks(constant: str, bench: _Bench) -> str:
    """Cycles depend on how clocks relate to each other, the speed of a memory on the clocks themselves."""
    head, usual = bench.log.head, bench.machine.clocks
    pairs = ((head.cpu_hz, usual.cpu_mhz), (head.npu_hz, usual.npu_mhz), (head.ram_hz, usual.npu_ram_mhz))
    ratios = [hz / (mhz * 1e6) for hz, mhz in pairs]
    if constant in SPEEDS:
        ratios.append(1.0)
        if head.external == SLOW:
            return "the firmware has mapped flash and external RAM itself, far below the board's speed"
    if 0 < max(ratios) <= min(ratios) * _SAME_CLOCK:
        return ""
    found = "/".join(f"{hz / 1e6:g}" for hz, _ in pairs)
    return f"CPU, NPU and its RAM ran at {found} MHz, the board's are {'/'.join(f'{mhz:g}' for _, mhz in pairs)}"


def _constant(probe: Probe, cycles: int, bench: _Bench) -> float:
    head = bench.log.head
    if probe.measures in SPEEDS:
        return probe.units / cycles * head.npu_hz / 1e6
    per_unit = cycles / probe.units
    return per_unit * head.cpu_hz / head.npu_hz if probe.measures.startswith(_CPU) else per_unit


def _usual(outcomes: Iterable[Outcome], machine: Machine) -> dict[str, float]:
    """At the clocks of `stm32n6.toml`; where several probes measure one constant, their mean."""
    found: dict[str, list[float]] = {}
    for name, value in (one.constant for one in outcomes if one.constant):
        found.setdefault(name, []).append(value / machine.clock_factor(name))
    return {name: float(f"{sum(values) / len(values):.{_DIGITS}g}") for name, values in found.items()}


def require_answers(settled: Settled, where: str) -> None:
    """A log in which nobody says anything is no evidence."""
    if all(one.silent for one in settled.outcomes):
        raise InputError(
            "no probe of this version answered",
            where=where,
            remedy="build the firmware with the atonc that reads its log: `atonc probe all -o DIR`",
        )


def document(settled: Settled) -> dict[str, Any]:
    head = settled.log.head
    return {
        "format": FORMAT,
        "version": VERSION,
        "atonc": __version__,
        "firmware": head.version,
        "clocks_hz": {"cpu": head.cpu_hz, "npu": head.npu_hz, "npu_ram": head.ram_hz},
        "complete": settled.log.complete and not settled.log.lost,
        "damaged_lines": settled.log.damaged,
        "answers": [reply.as_dict() for reply in settled.log.replies.values()],
        **evidence_row(settled.evidence),
    }


def evidence_bytes(settled: Settled) -> bytes:
    """A line for every answer, form and constant, so that two files can be compared."""
    rows = [f"{json.dumps(key)}: {_value(value)}" for key, value in document(settled).items()]
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode("ascii")


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f" {json.dumps(entry)}" for entry in value) + "\n]"
    return json.dumps(value)
