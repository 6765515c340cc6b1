"""The picture of a network that all reports share; ours and the vendor's look the same in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

from atonc.compiler.frontends.coverage import Coverage
from atonc.compiler.place.usage import MemoryUse
from atonc.insight.explain.limits import LayerLimit, NetworkLimit, network_limit
from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.reasons import Reason
from atonc.machine.cost.band import PredictionBand, band_of
from atonc.machine.cost.energy import Activity, EnergyEstimate, network_energy
from atonc.machine.hw.machine import milliseconds
from atonc.machine.hw.safety.evidence.summary import Summary

if TYPE_CHECKING:
    from atonc.compiler.search.log import Attempt
    from atonc.compiler.select.decisions import Decisions

WEIGHTS, ACTIVATION, ARITHMETIC = "weights", "activation", "arithmetic"
KINDS = (WEIGHTS, ACTIVATION, ARITHMETIC)
WRONG_DB = 3.0  # of the outputs, that a mistake costs at least: sound quantisers differ by less
# symptoms that sound layers have, too
PRICE_OF_BITS = ("eight-bits", "sixteen-bits", "shared-scale", "eight-bit-weights")
# A range for the given samples alone brings some dB to any of those: who quantised saw more. Thrice too wide is more.
FITTED_DB = 10.0
UNEXPLAINED_DB = 10.0  # of the outputs, beyond the sum of all losses: they add up within some dB


@dataclass(frozen=True)
class LayerNoise:
    """One layer: signal to noise in dB against float; None where it cannot be known, infinite where nothing is lost.

    Alone: everything before it is float. Accumulated: everything before it has the same kind of loss.
    """

    name: str  # of the node
    kind: str
    tensor: str  # in the float model where it is known there
    matched: bool  # the float model has this tensor
    alone: tuple[float | None, ...]  # of weights, activation, arithmetic
    accumulated: tuple[float | None, ...]
    quantised: float  # all weights and activations up to here, in exact arithmetic
    worst_channel: float  # of the activation alone


@dataclass(frozen=True)
class Remedy:
    """A change that was made and measured on the whole network, or why it could not be."""

    what: str
    tried: bool
    before_db: float | None = None  # signal to noise of the outputs
    after_db: float | None = None
    before_ms: float | None = None  # predicted time of one inference
    after_ms: float | None = None
    why_not: str = ""
    more_bits: bool = False  # 16, or float: they help any layer, so their gain says nothing about this one

    @property
    def gain_db(self) -> float:
        return 0.0 if self.after_db is None or self.before_db is None else self.after_db - self.before_db

    @property
    def price_ms(self) -> float | None:
        return None if self.after_ms is None or self.before_ms is None else self.after_ms - self.before_ms


@dataclass(frozen=True)
class LossFinding:
    """One loss: which layer, in which of its parts, and what it does to the outputs when it is the only one."""

    layer: str
    tensor: str
    part: str  # one of KINDS
    symptom: str
    says: str
    own_db: float  # the layer's own signal to noise in this part
    outputs_db: float  # of the outputs, if nothing else were lost
    remedies: tuple[Remedy, ...] = ()

    @property
    def wrong(self) -> bool:
        """A mistake, and not the price of 8 bits: without more of them something mends it."""
        least = FITTED_DB if self.symptom in PRICE_OF_BITS else WRONG_DB
        return any(not remedy.more_bits and remedy.gain_db >= least for remedy in self.remedies)


@dataclass(frozen=True)
class AccuracyReport:
    model: str
    float_model: str  # empty: the quantised model's own numbers without any rounding
    samples: int
    synthetic: bool  # nobody gave inputs
    outputs: tuple[tuple[str, float, float], ...]  # name, dB of exact int8 arithmetic, dB on the NPU
    layers: tuple[LayerNoise, ...]
    findings: tuple[LossFinding, ...]  # the dearest first
    latency_ms: float
    notes: tuple[str, ...] = ()
    latency_span_ms: tuple[float, ...] = ()  # how little and how much it may be
    unexplained_db: float = 0.0  # that the outputs lose beyond the sum of all losses that were found
    __repr__ = brief

    @property
    def verdict(self) -> str:
        """Whether something is wrong; empty where nothing was tried."""
        wrong = [finding for finding in self.findings if finding.wrong]
        if wrong:
            others = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            return f"something is wrong: {wrong[0].layer}, {wrong[0].symptom}{others}"
        if self.unexplained_db >= UNEXPLAINED_DB:
            lost = f"the outputs lose {self.unexplained_db:.0f} dB more than all layers together"
            return f"something is wrong that no layer shows: {lost}; is this the float model that it was made from?"
        if not any(remedy.tried for finding in self.findings for remedy in finding.remedies):
            return ""
        return "nothing is wrong: what is lost is the price of the bits, spread over the layers"


NPU, CPU, HYBRID, NOTHING = "npu", "cpu", "hybrid", "none"
PREDICTED, ESTIMATED, UNBUILT = "predicted", "estimated by ST's compiler", "not compiled yet"


@dataclass(frozen=True)
class RemedyPrice:
    """What a remedy brings: positive numbers are gained. `tried`: measured on a compiled variant."""

    cycles: int
    bytes: int
    tried: bool
    how: str  # what was compared


@dataclass(frozen=True)
class Decision(Reason):
    """A rule that decided where or how a layer runs."""

    remedy: str = ""  # empty: there is none, or none is needed
    price: RemedyPrice | None = None
    avoided: bool = False  # the rule would apply, but the compiler found a way around it
    __repr__ = brief

    def as_dict(self) -> dict[str, object]:
        told = {"rule": self.rule.id, "sentence": self.rule.sentence, "seen": self.seen, "limit": self.limit}
        more = {"avoided": True} if self.avoided else {}
        price = {"price": asdict(self.price)} if self.price is not None else {}
        return {**told, "remedy": self.remedy, **more, **price}


@dataclass(frozen=True)
class EpochShare:
    """What a layer has of an epoch that several share: its units, and its elements among those of all of them."""

    epoch: int
    before: int  # elements of the layers in front of it
    own: int
    all: int
    units: tuple[str, ...]

    def cycles(self, whole: int) -> int:
        """Its part of the epoch's: all parts together are the whole."""
        return whole * (self.before + self.own) // self.all - whole * self.before // self.all


@dataclass(frozen=True, kw_only=True)
class StepView:
    """One epoch or one CPU step."""

    number: int
    on: str  # npu, cpu, hybrid
    title: str
    layer: str  # name of the layer that it belongs to
    cycles: int
    milliseconds: float
    st_cycles: int
    bound_by: str
    known: bool = True  # False: its cycles rest on a guess
    parts: Mapping[str, float] = field(default_factory=dict)  # terms of the cycle model
    chains: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    links: tuple[tuple[str, str, int, str], ...] = ()  # source, destination, port, gate
    units: Mapping[str, str] = field(default_factory=dict)  # unit -> what it does, in words
    macs: int = 0
    bytes_moved: int = 0
    activity: Activity = Activity()  # what draws power in it
    energy_uj: float = 0.0  # likely, of that; 0 where it is not known what the step does
    nodes: tuple[str, ...] = ()  # of a network that others compiled: what its epoch says that it computes
    doubts: Mapping[str, float] = field(default_factory=dict)  # cycles by what calibration has hardly covered
    part: EpochShare | None = None  # of the epoch, where this is not all of it
    __repr__ = brief


@dataclass(frozen=True)
class Spread:
    """`saturated`: codes at an end of their range, which for signed ones is -127 to 127."""

    channels: int
    rows: tuple[str, ...]  # a digit for each bin, from the smallest code to the largest
    lows: tuple[int, ...]  # smallest and largest code of each row
    highs: tuple[int, ...]
    saturated: int
    elements: int


@dataclass(frozen=True)
class TensorView:
    """A tensor in words: what flows along an edge, what enters or leaves the network, what a layer holds as weights."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None  # None: plain numbers, or one scale a channel
    zero_point: int | None = None
    scales: int = 1  # how many: more than one means one a channel
    low: float | None = None  # real values of constants
    high: float | None = None
    spread: Spread | None = None  # of weights


@dataclass(frozen=True)
class OperatorView:
    """An operator of the model inside a layer; `kernel`: outputs, rows and columns of its weights."""

    node: str
    kind: str
    kernel: tuple[int, ...] = ()
    depthwise: bool = False


@dataclass(frozen=True)
class LayerError:
    """How far a layer is from exact arithmetic on the inputs it really has, in codes."""

    codes: float
    differ_percent: float
    limit: float


@dataclass(frozen=True)
class Verified:
    """What the emulator saw: every layer within its limit, and the outputs of the whole beside exact arithmetic."""

    samples: int
    layers: int
    worst_codes: float
    outputs: tuple[tuple[str, float, float, float, float], ...]  # name, cosine, exact %, within one %, largest LSB
    tensors: int = 0  # of these layers, that were compared
    sums: str = ""  # how much room they have, in words
    worst_text: str = ""  # the largest error of all layers, and the limit
    errors: tuple[str, ...] = ()  # of each output, in words


@dataclass(frozen=True, kw_only=True)
class LayerFacts:
    """What a layer is, as its source tells: the compiler, a folder, or a description by ST's compiler."""

    name: str
    kind: str
    nodes: tuple[str, ...]  # of the source, that went into it
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shape: tuple[int, ...]  # of the first output
    on: str = ""  # npu, cpu, hybrid, none (costs nothing); empty: where its steps run
    macs: int | None = None  # None: what its steps have
    limit: LayerLimit | None = None  # what the chip could do at best; None: not known, or nothing of the NPU runs
    decisions: tuple[Decision, ...] = ()
    label: str = ""  # the kind with what people look for: "depthwise conv 3x3 /2"
    attributes: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[TensorView, ...] = ()
    operators: tuple[OperatorView, ...] = ()  # more than one where ST's compiler joined them in an epoch
    error: LayerError | None = None


@dataclass(frozen=True, kw_only=True)
class LayerView(LayerFacts):
    """One operator of the compiled graph with the figures of its steps. A new figure is a field and its line in `of`,
    or a property: every source has it then."""

    macs: int
    steps: tuple[int, ...]
    cycles: int
    milliseconds: float
    energy_uj: float  # likely; 0 where nothing tells what its steps do
    bound_by: Mapping[str, float]  # label -> share of its cycles
    chains: tuple[str, ...]
    modes: tuple[str, ...]
    parts: tuple[EpochShare, ...] = ()  # of epochs that it shares with others

    @classmethod
    def of(cls, facts: LayerFacts, own: Sequence[StepView]) -> LayerView:
        """`own`: its steps, each with the part that is its own."""
        said = {member.name: getattr(facts, member.name) for member in fields(LayerFacts)}
        said["on"] = facts.on or (own[0].on if own else NOTHING)
        said["macs"] = sum(step.macs for step in own) if facts.macs is None else facts.macs
        return cls(
            **said,
            steps=tuple(step.number for step in own),
            cycles=sum(step.cycles for step in own),
            milliseconds=sum(step.milliseconds for step in own),
            energy_uj=sum(step.energy_uj for step in own),
            bound_by=shares(own),
            chains=tuple(dict.fromkeys(chain for step in own for chain in step.chains)),
            modes=tuple(dict.fromkeys(mode for step in own for mode in step.modes)),
            parts=tuple(step.part for step in own if step.part is not None),
        )

    @property
    def title(self) -> str:
        return self.label or self.kind.replace("_", " ")

    def __repr__(self) -> str:
        shape, cycles = "x".join(map(str, self.shape)), f"{self.cycles:,} cycles, {self.milliseconds:.4f} ms"
        return plain(f"<layer {self.name[:60]}: {self.title[:40]} {shape[:40]} on {self.on}, {cycles}>")

    @property
    def macs_per_cycle(self) -> float:
        return self.macs / self.cycles if self.cycles else 0.0

    @property
    def practical_cycles(self) -> int:
        return self.limit.practical if self.limit else 0

    @property
    def absolute_cycles(self) -> int:
        return self.limit.absolute if self.limit else 0

    @property
    def times_limit(self) -> float:
        """Below 1 only where it shares epochs with others, or where its weights were fetched ahead."""
        return self.cycles / self.practical_cycles if self.practical_cycles else 0.0

    @property
    def lost_cycles(self) -> int:
        """What it takes beyond its practical bound."""
        return max(0, self.cycles - self.practical_cycles) if self.limit else 0


def shares(own: Iterable[StepView]) -> dict[str, float]:
    """What bounds steps, as shares of their cycles, the largest first."""
    cycles = Counter[str]()
    for step in own:
        cycles[step.bound_by] += step.cycles
    total = max(1, cycles.total())
    return {label: count / total for label, count in cycles.most_common() if label and count}


@dataclass(frozen=True)
class BufferView:
    name: str
    pool: str
    address: int
    size_bytes: int
    first: int  # steps, counted like StepView.number
    last: int
    kind: str  # as plan.types.BufferKind
    layer: str = ""  # that writes it; of constants the one that reads them
    reserved_bytes: int = 0  # with padding, where that is known


@dataclass(frozen=True)
class StateMemoryView:
    """What the network keeps from one inference to the next, and what a reset writes there."""

    name: str
    address: int
    size_bytes: int
    pool: str
    first: str  # in words

    def __str__(self) -> str:
        return f"{self.name}: {self.size_bytes:,} bytes at {self.address:#010x} ({self.pool}), first {self.first}"


@dataclass(frozen=True)
class PoolView:
    name: str
    base: int
    size_bytes: int
    used_bytes: int
    external: bool
    writable: bool = True


@dataclass(frozen=True)
class MeasuredBlock:
    """Epochs that a board ran as one block, and what was predicted for them. Measured cycles are those of the CPU:
    before, while and after the NPU (or the CPU's own kernel) works."""

    first: int
    last: int
    before: int
    core: int
    after: int
    measured_ms: float
    predicted_ms: float
    npu_cycles: int  # the measured time at the NPU's clock
    predicted_cycles: int
    bound_by: str = ""

    @property
    def ratio(self) -> float:
        return self.measured_ms / self.predicted_ms if self.predicted_ms else 0.0


@dataclass(frozen=True)
class Measured:
    """What a board took, block by block."""

    source: str  # which board, by which line
    cpu_hz: int
    npu_hz: int
    total_ms: float  # from start to end, without the reports of layers
    blocks: tuple[MeasuredBlock, ...]
    predicted_span_ms: tuple[float, ...] = ()  # how little and how much was predicted for all blocks


@dataclass(frozen=True, repr=False, kw_only=True)
class NetworkView:
    name: str
    model: str
    tool: str  # who compiled it
    board: str
    npu_mhz: float
    cpu_mhz: float
    steps: tuple[StepView, ...]
    layers: tuple[LayerView, ...]
    buffers: tuple[BufferView, ...]
    pools: tuple[PoolView, ...]
    memory: MemoryUse  # what it takes, counted once for all views
    lower_bound_bytes: int = 0  # of the activations: no layout needs less
    notes: tuple[str, ...] = ()
    reproduce: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] | None = None  # that were asked for, by flag; None: its files do not tell
    coverage: Coverage | None = None  # of models that were compiled here
    basis: str = PREDICTED  # where cycles come from
    silicon: Summary | None = None  # how near its epochs are to published ones, where they can be read
    measured: Measured | None = None  # on a board, beside what was predicted
    inputs: tuple[TensorView, ...] = ()
    outputs: tuple[TensorView, ...] = ()
    tensors: Mapping[str, TensorView] = field(default_factory=dict)  # of the layers' inputs and outputs
    states: tuple[StateMemoryView, ...] = ()
    verified: Verified | None = None
    accuracy: AccuracyReport | None = None  # where it loses against float, if that was asked
    advice: tuple[tuple[str, str], ...] = ()  # options that were tried and help: flags, what each brings
    search: tuple[Attempt, ...] = ()  # every program that was built, of models that were compiled here
    decisions: Decisions | None = None  # of the one that was taken

    @property
    def clocks(self) -> str:
        return f"NPU {self.npu_mhz:g} MHz, CPU {self.cpu_mhz:g} MHz"

    @property
    def cycles(self) -> int:
        return sum(step.cycles for step in self.steps)

    @property
    def latency_ms(self) -> float:
        return milliseconds(self.cycles, self.npu_mhz)

    @property
    def st_cycles(self) -> int:
        """What ST's compiler estimates, or would; CPU steps count nothing there."""
        return sum(step.st_cycles for step in self.steps)

    @cached_property
    def energy(self) -> EnergyEstimate:
        band = band_of((step.on in (CPU, HYBRID), step) for step in self.steps)
        return network_energy((step.activity for step in self.steps), self.npu_mhz, self.cpu_mhz, band)

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers) or sum(step.macs for step in self.steps)

    @cached_property
    def bound_by(self) -> Mapping[str, float]:
        return shares(self.steps)

    @cached_property
    def limit(self) -> NetworkLimit | None:
        on_cpu = sum(step.cycles for step in self.steps if step.on != NPU)
        return network_limit([layer.limit for layer in self.layers if layer.limit], self.cycles, on_cpu)

    def count(self, on: str) -> int:
        return sum(step.on == on for step in self.steps)

    def __repr__(self) -> str:
        named = f"{self.name[:60]!r} of {self.model[:60]!r} by {self.tool[:60]}"
        return f"<NetworkView {named}: {len(self.layers)} layers, {len(self.steps)} steps, {self.latency_ms:.3f} ms>"


def error_band(network: NetworkView) -> PredictionBand:
    return band_of((step.on in (CPU, HYBRID), step) for step in network.steps)


def span_of(network: NetworkView, digits: int = 0) -> str:
    """The band to print behind a predicted time; nothing where ST's compiler estimated it."""
    return f" ({error_band(network).span(network.latency_ms, digits)})" if network.basis == PREDICTED else ""
