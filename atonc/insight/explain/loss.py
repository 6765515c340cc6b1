"""What the report of accuracy says, as data."""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass

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
