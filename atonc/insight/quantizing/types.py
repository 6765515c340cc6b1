"""What the user may ask of `quantize`, and what it gives."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from math import inf, isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.request.options import MODEL, names, shapes, size
from atonc.insight.evaluating.options import FIGURES, EvaluateOptions, require_metric
from atonc.machine.base.declare import RARE, Takes, again, check, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.compiler.ir.types import Tail
    from atonc.insight.evaluating.metrics import MetricFigure

DATA, METHOD, RESULT = "calibration data", "how scales and weights are chosen", "accuracy against speed and size"
WORK = "how the work is done"
CALIBRATIONS = ("output", "mse", "minmax", "percentile", "entropy")
OBJECTIVES = ("accuracy", "balanced", "speed")
EIGHT_BITS, FOUR_BITS, MIXED_BITS = BITS = ("8", "4", "mixed")
MOST_LOSS_DB = 0.5  # that speed or flash may cost where nothing else is said
FOUR_BITS_LOSS_DB = 1.5  # the same where 4 bits are asked for
NO_LIMIT, ANY_LOSS = "none", inf
LEAST_SAMPLES, USUAL_SAMPLES = 8, 100
PRODUCER = "atonc quantize"  # what int8 models say of their origin
MOST_THREADS = 256  # more only wait for each other


def count(text: str) -> int:
    value = number(text)
    if value != int(value):
        raise InputError(f"{text[:40]!r} is not a whole number")
    return int(value)


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise InputError(f"{text[:40]!r} is not a number from 0 on and below 1e9", remedy="write such a number")
    return value


def loss(text: str) -> str:
    """Decibels, percent of the samples, or `none` where any loss will do; nothing where it is left to us."""
    word = text.strip()
    if word and word != NO_LIMIT and number(word.removesuffix("%").strip()) > 100 and word.endswith("%"):
        raise InputError(f"{text[:40]!r} is more than all samples", where="--max-loss", remedy="write 1%, 1.5 or none")
    return word


def wide_target(text: str) -> str:
    """Percent of the outputs' amplitude, or decibels; `none`: 8 bits stay; nothing where it is left to us."""
    word = text.strip()
    with suppress(InputError):
        if word in ("", NO_LIMIT) or 0 < number(word.removesuffix("%").strip()) <= 100:
            return word
    rule = "above 0 and at most 100: percent of the amplitude with %, decibels without"
    raise InputError(
        f"{text[:40]!r} is no error that one could ask for", where="--wide", rule=rule, remedy="write 1%, 40 or none"
    )


def numbers(text: str) -> tuple[str, ...]:
    """One number, or one per channel, separated by commas."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        try:
            usable = isfinite(float(word))
        except ValueError:
            usable = False
        if not usable:
            raise InputError(f"{word[:40]!r} is not a number", remedy="write 127.5, or 123.7,116.3,103.5")
    return words


@dataclass(frozen=True)
class QuantizeOptions:
    """Arguments of `atonc.quantize`; flags of the command line with their help; rows of the reference."""

    samples: int = option(USUAL_SAMPLES, "--samples", DATA, "maximum number of samples", metavar="N", parse=count)
    mean: tuple[str, ...] = option(
        (), "--mean", DATA, "subtracted from the pixels of images",
        metavar="M[,M,M]", parse=numbers,
    )  # fmt: skip
    std: tuple[str, ...] = option(
        (), "--std", DATA, "pixels of images are divided by it, after --mean", metavar="S[,S,S]", parse=numbers
    )
    state: tuple[str, ...] = option(
        (), "--state", DATA, "OUT=IN, or auto: states of frames in order",
        metavar="PAIRS", parse=names,
    )  # fmt: skip
    fixed_shapes: dict[str, Any] = option(
        dict, "--fix-parametric-shapes", MODEL,
        "sizes of free dimensions, values of inputs: B=1,axes=0,2 or {'x:2': 48}",
        metavar="SHAPES", parse=shapes, takes=RARE,
    )  # fmt: skip
    cut_outputs: tuple[str, ...] = option(
        (), "--cut-output-tensors", MODEL, "ends of the model; NMS is cut automatically", metavar="NAMES", parse=names,
    )  # fmt: skip
    calibration: str = option(
        "output", "--calibration", METHOD, "how ranges of activations are chosen",
        takes=Takes(choices=CALIBRATIONS, rare=True),
    )  # fmt: skip
    equalise: bool = option(True, "--no-equalisation", METHOD, "leave the channels' ranges as they are", takes=RARE)
    correct_rounding: bool = option(True, "--no-rounding", METHOD, "round every weight to the nearest code", takes=RARE)
    correct_bias: bool = option(
        True, "--no-bias-correction", METHOD, "leave the means of the channels as they come", takes=RARE
    )
    float_tails: bool = option(True, "--no-float-tails", METHOD, "softmax and what follows it in int8, too", takes=RARE)
    objective: str = option(
        "balanced", "--objective", RESULT, "what to optimise: accuracy, latency, or both",
        takes=Takes(choices=OBJECTIVES),
    )  # fmt: skip
    max_loss: str = option(
        "", "--max-loss", RESULT, "accuracy that speed or flash may cost: dB, percent of top-1 answers, or none "
        f"(default {MOST_LOSS_DB:g}, --bits 4: {FOUR_BITS_LOSS_DB:g})", metavar="DB|SHARE", parse=loss,
    )  # fmt: skip
    bits: str = option(
        EIGHT_BITS, "--bits", RESULT, "bits of weights; 4: where --max-loss allows", takes=Takes(choices=BITS),
    )  # fmt: skip
    max_flash: int = option(
        0, "--max-flash", RESULT, "for weights and constants; implies --bits mixed", metavar="SIZE", parse=size,
    )  # fmt: skip
    wide: str = option(
        "", "--wide", RESULT, "16-bit activations up to this error; none: 8 bits",
        metavar="SHARE|DB|none", parse=wide_target,
    )  # fmt: skip
    images: str = again(EvaluateOptions, "images", DATA)
    metric: str = again(EvaluateOptions, "metric", FIGURES)
    decoder: str = again(EvaluateOptions, "decoder", FIGURES)
    anchors: str = again(EvaluateOptions, "anchors", FIGURES)
    blank: int = again(EvaluateOptions, "blank", FIGURES)
    threads: int = option(
        0, "--threads", WORK, "of one run of the model; 0: as OMP_NUM_THREADS says, else one per core", metavar="N",
        parse=count, takes=Takes(local=True, rare=True),
    )  # fmt: skip
    scheduler: str = option(
        "", "--scheduler", WORK, "a Dask cluster calibrates: tcp://HOST:PORT, or local", metavar="ADDRESS",
        takes=Takes(local=True, rare=True),
    )  # fmt: skip
    board: str = option("stm32n6570-dk", "--board", RESULT, "board whose latency is predicted", metavar="BOARD")

    def __post_init__(self) -> None:
        check(self)
        if self.samples < LEAST_SAMPLES:
            raise InputError(
                f"{self.samples} samples are too few",
                where="--samples",
                rule=f"ranges need at least {LEAST_SAMPLES} samples; {USUAL_SAMPLES} are usual",
                remedy="raise it",
            )
        if self.threads > MOST_THREADS:
            raise InputError(f"{self.threads:,} threads", where="--threads", rule=f"at most {MOST_THREADS}")
        if any(float(word) == 0 for word in self.std):
            raise InputError("pixels cannot be divided by 0", where="--std")
        loss(self.max_loss)
        require_metric(self.metric)
        if self.max_changed is not None and self.precision == EIGHT_BITS:
            raise InputError(
                "percent of the first classes, without weights of 4 bits",
                where=f"--max-loss {self.max_loss}",
                rule="percent limits what weights of 4 bits may change; what speed may cost is in dB",
                remedy=f"write dB, for example --max-loss {MOST_LOSS_DB:g}, or add --bits 4",
            )
        wide_target(self.wide)
        if self.widens and self.precision != EIGHT_BITS:
            raise InputError(
                "weights of 4 bits and activations of 16 at once",
                where="--wide",
                rule="layers with 16-bit activations have weights of 8 bits on the NPU",
                remedy="leave out --bits and --max-flash, or --wide",
            )
        if self.max_flash < 0:
            raise InputError("a size cannot be below 0", where="--max-flash")

    @property
    def precision(self) -> str:
        """One of `BITS`."""
        return MIXED_BITS if self.max_flash else self.bits

    @property
    def widens(self) -> bool:
        """Whether 16 bits are asked for."""
        return self.wide not in ("", NO_LIMIT)

    @property
    def may_widen(self) -> bool:
        """Whether a few tensors may have them by themselves."""
        return not self.wide and self.precision == EIGHT_BITS and self.objective != "speed"

    @property
    def wide_db(self) -> float:
        """What --wide asks of the worst output."""
        share = float(self.wide.removesuffix("%"))
        return 20 * log10(100 / share) if self.wide.endswith("%") else share

    @property
    def max_loss_db(self) -> float:
        """What speed may cost: where 4 bits are asked for, the loss that is allowed is theirs, below the usual int8."""
        return MOST_LOSS_DB if self.precision != EIGHT_BITS else self._allowed_db(MOST_LOSS_DB)

    @property
    def four_bits_loss_db(self) -> float:
        """What weights of 4 bits may cost."""
        return self._allowed_db(FOUR_BITS_LOSS_DB if self.bits == FOUR_BITS else MOST_LOSS_DB)

    def _allowed_db(self, usual: float) -> float:
        if self.max_loss == NO_LIMIT:
            return ANY_LOSS
        return float(self.max_loss) if self.max_loss and self.max_changed is None else usual

    @property
    def max_changed(self) -> float | None:
        """The share of the samples, where that is what counts."""
        return float(self.max_loss.removesuffix("%")) / 100 if self.max_loss.endswith("%") else None


RANGES_KEY = "atonc.fake_quantisation"  # of what an ONNX model says: ranges that its training had


@dataclass(frozen=True)
class Scale:
    """real = scale * (code - zero)"""

    scale: float
    zero: int


class QuantizedRow:
    """A row of a result: in JSON decibels have three digits and shares four."""

    def as_dict(self) -> dict[str, Any]:
        return {name: self._plain(name, value) for name, value in vars(self).items()}

    @classmethod
    def _plain(cls, name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return [cls._plain(name, one) for one in value]
        digits = 3 if name.endswith("_db") else 4 if name == "share" else None
        return value if value is None or digits is None else round(value, digits)


@dataclass(frozen=True)
class QuantizationStep(QuantizedRow):
    """Something that was tried on the way; it is kept where it is better by more than chance."""

    name: str
    snr_db: float
    interval_db: tuple[float, float]  # 95 % of what as many new samples give
    gain_db: tuple[float, float] | None  # over what there was before: 95 % CI of the samples lie between
    kept: bool


@dataclass(frozen=True)
class OutputAccuracy(QuantizedRow):
    """An output of the chosen model, on samples that taught nothing."""

    name: str
    snr_db: float
    interval_db: tuple[float, float]  # 95 % of what as many new samples give
    clipped: int | None  # values beyond what the codes say; None of an output in float
    values: int


@dataclass(frozen=True)
class ClippedTensor(QuantizedRow):
    """Values inside the network beyond what the codes say, of samples that taught nothing. Those of what a function
    alone reads count in its result."""

    name: str
    clipped: int
    values: int


@dataclass(frozen=True)
class QuantizedCandidate(QuantizedRow):
    """One way to quantise the model, with what it costs."""

    name: str
    snr_db: float  # mean over outputs, on samples that taught nothing
    interval_db: tuple[float, float]  # 95 % of what as many new samples give
    milliseconds: float | None  # predicted; None where the compiler refuses
    cycles: int | None
    refusal: str = ""
    chosen: bool = False
    sound: bool = True  # no less sure to be as good as plain ranges and nearest rounding than the untuned one
    span_ms: tuple[float, ...] = ()  # how little and how much the milliseconds may be

    @property
    def time_ms(self) -> float:
        """Without end where the compiler refuses."""
        return inf if self.milliseconds is None else self.milliseconds

    def as_dict(self) -> dict[str, Any]:
        row = super().as_dict()
        figures = {name: row[name] for name in ("name", "snr_db", "interval_db", "milliseconds", "cycles")}
        figures |= dict(zip(("low_ms", "high_ms"), self.span_ms, strict=False))
        return {**figures, "refusal": self.refusal, "chosen": self.chosen}


@dataclass(frozen=True)
class PrecisionPoint(QuantizedRow):
    """So many layers with weights of 4 bits: measured on samples that taught nothing."""

    layers: int
    share: float  # of all weights
    flash_bytes: int  # of constants, weights of 4 bits two to a byte
    snr_db: float
    interval_db: tuple[float, float]  # 95 % of what as many new samples give
    gain_db: tuple[float, float]  # over 8 bits: 95 % CI of the samples lie between
    unclipped_db: tuple[float, float, float]  # gain and its 95 % CI without values that are clipped: they hide it
    changed: float | None = None  # share of the samples whose first class is another than in float, where asked for
    chosen: bool = False


@dataclass(frozen=True)
class WidePoint(QuantizedRow):
    """A step of --wide: tensors that get 16 bits, measured on samples that taught nothing."""

    tensors: tuple[str, ...]  # more than before it
    wide: int  # tensors with 16 bits in all
    snr_db: float  # mean over outputs, in the chip's arithmetic
    interval_db: tuple[float, float]  # 95 % of what as many new samples give
    worst_db: float  # of the worst output, in the chip's arithmetic or as the file is written: the worse of both
    gain_db: tuple[float, float]  # over what was kept before: 95 % CI of the samples lie between
    lost_db: float | None  # what the worst of the tensors loses with 8 bits where all others are wide
    milliseconds: float  # predicted for the whole model
    price_ms: float  # of them, what the step costs
    edges_ms: float  # of them, from and to float at the edges
    edges_saved_by: str  # the options that save those
    on_cpu: tuple[str, ...]  # layers that go there by it, with the rule
    kept: bool = False
    chosen: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"tensors": list(self.tensors), "bits": 16 if self.tensors else 8, **super().as_dict()}


@dataclass(frozen=True)
class TensorPrecision(QuantizedRow):
    """The weights of one layer, as they are written."""

    layer: str
    tensor: str
    bits: int
    values: int
    size_bytes: int
    snr_db: float  # of the weights themselves
    alone_db: float | None = None  # what the outputs lose if it alone has 4 bits, on samples to learn from
    reason: str = ""  # why it may not have 4 bits


@dataclass(frozen=True)
class Quantised:
    """What `quantize` gives; `model` is the ONNX file's contents."""

    source: str
    model: bytes
    samples: int
    held_samples: int  # that judged
    outputs: tuple[OutputAccuracy, ...]
    clipped_inside: tuple[ClippedTensor, ...]  # the largest shares first
    steps: tuple[QuantizationStep, ...]
    front: tuple[QuantizedCandidate, ...]
    float_nodes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = field(default=())
    sizes: tuple[PrecisionPoint, ...] = ()  # the front of flash against error; empty where all weights have 8 bits
    tensors: tuple[TensorPrecision, ...] = ()
    widths: tuple[WidePoint, ...] = ()  # steps of --wide
    wide: bool = False  # some activations have 16 bits
    tail: Tail | None = None  # what the model ended with, and stays for the application
    task: dict[str, list[MetricFigure]] = field(default_factory=dict)  # by labels: float, quantised, difference
    states: tuple[str, ...] = ()  # OUT=IN, both ends with one scale: what the compiler is told

    @property
    def outputs_db(self) -> dict[str, float]:
        return {one.name: one.snr_db for one in self.outputs}

    @property
    def split(self) -> str:
        """Who judged what."""
        if self.held_samples == self.samples:
            return f"2-fold cross-validation on {self.samples} samples"
        return f"validated on {self.held_samples} of {self.samples} samples, calibrated on the others"

    @property
    def chosen(self) -> QuantizedCandidate:
        return next(candidate for candidate in self.front if candidate.chosen)

    def save(self, path: str | Path) -> None:
        from atonc.machine.base.disk import write_file

        write_file(Path(path), self.model)
