"""What a board's replies settle: forms that are seen from now on, forms that are refused, constants of the machine.

A probe settles what its program shows and published programs do not, or hardly: its features that are neither seen nor
within. A pass confirms these. A failure refutes those of them that no passing probe shows, and the argument that allows
them. A probe whose control did not pass says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from atonc.delivery.probes import narrow
from atonc.delivery.probes.build import bound, c_name
from atonc.delivery.probes.log import HANG, PASS, WRONG, ProbeLog, Reply
from atonc.delivery.probes.types import Probe
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import find_board
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.machine import SPEEDS, Machine, implausible
from atonc.machine.hw.safety.evidence import Feature, Grade, grade_feature
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board_file import BoardEvidence
from atonc.machine.hw.safety.evidence.epochs import view_features
from atonc.machine.hw.safety.evidence.unit_features import NARROW, NARROW_DEEP
from atonc.machine.hw.safety.view import EpochView, SafetyContext

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
    )


# --------------------------------------------------------------------------------------------------------------- forms


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
        refuted = frozenset() if probe.is_control else _blamed(shown, bench.working())
        return _kernels_settled(replace(found, refuted=refuted, distrusted=_arguments(probe, refuted)))
    passed = replace(found, confirmed=unpublished(shown), supported=_asks_about(probe))
    return _measured(_kernels_settled(passed), bench)


def _kernels_settled(found: Outcome) -> Outcome:
    """Whether kernels of 4 bits may be used is for probes of convolutions to say. An answer that the compiler has no
    form for is a refusal too, although the probe passed."""
    asked = {**dict.fromkeys(narrow.KERNELS_READ, NARROW), narrow.KERNELS_DEEP: NARROW_DEEP}.get(found.probe.name)
    others, said = {NARROW, NARROW_DEEP} - {asked}, found.reply.why if found.reply else ""
    found = replace(found, confirmed=found.confirmed - others, refuted=found.refuted - others)
    if asked not in found.confirmed or said in narrow.LOW_FIRST:
        return found
    refuted = {asked} if said else set()  # else the log has lost the answer
    return replace(found, confirmed=found.confirmed - {asked}, refuted=found.refuted | refuted)


def _four_bits(bench: _Bench) -> FourBits | None:
    """How the board reads kernels of 4 bits, from RAM and from flash alike; None where it does not say."""
    asked = [bench.probes[name] for name in narrow.KERNELS_READ if name in bench.probes]
    if len(asked) < len(narrow.KERNELS_READ) or not all(map(bench.passed, asked)):
        return None
    said = {bench.log.replies[probe.name].why for probe in asked}
    if len(said) > 1 or not said <= narrow.LOW_FIRST.keys():
        return None
    deep = bench.probes.get(narrow.KERNELS_DEEP)
    reads_deep = deep is not None and bench.passed(deep) and bench.log.replies[deep.name].why in said
    return FourBits(narrow.LOW_FIRST[said.pop()], reads_deep, confirmed=True)


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
