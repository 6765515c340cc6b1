"""What a front end does, declared: sections of `front_end.toml`, or the same in Python; read, checked, named by preset.

The defaults are those of a log-mel spectrogram of speech; the presets (`presets/*.toml`) say what packages do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.delivery.front_end import declare
from atonc.delivery.front_end.declare import CODE_TYPES as CODE_TYPES
from atonc.delivery.front_end.declare import Agreement, Check, Codes, Declaration, flag, one_of, real, whole
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

PAGE = "docs/front_ends.md"
FFT_SIZES = tuple(1 << k for k in range(6, 13))
WINDOWS = ("hann", "hann_symmetric", "hamming", "hamming_symmetric", "povey", "none")
LOGS = {"none": 1.0, "ln": 1.0, "log10": 0.4342944819032518, "log2": 1.4426950408889634, "dB": 4.342944819032518}


@dataclass(frozen=True)
class Framing:
    """Samples of one frame. `first`: the sample where the first window begins, or "centre": its middle is sample 0."""

    length: int = 400
    hop: int = 160
    first: int | str = 0
    window: str = "hann"
    remove_mean: bool = False
    pre_emphasis: float = 0.0
    pre_emphasis_over: str = "signal"


@dataclass(frozen=True)
class Spectrum:
    n_fft: int = 512
    of: str = "power"
    samples: str = "unit"  # 32768 is 1.0, or "integer": it is itself


@dataclass(frozen=True)
class Mel:
    """The filter bank; `count` 0: none, the bins themselves. `fmax` 0: half the sample rate."""

    count: int = 80
    scale: str = "slaney"
    norm: str = "slaney"
    fmin: float = 0.0
    fmax: float = 0.0
    triangles: str = "hertz"  # straight sides over hertz, over mel (Kaldi), between whole bins (ONNX)


@dataclass(frozen=True)
class Log:
    """log(max(x + guard, floor))."""

    of: str = "ln"
    guard: float = 0.0
    floor: float = 0.0
    top_db: float = 0.0


@dataclass(frozen=True)
class Dct:
    """Orthonormal DCT-II of the logarithms, the first `count`; 0: none."""

    count: int = 0


@dataclass(frozen=True)
class Normalise:
    """(x - mean) / deviation: constants, one for all features or one for each."""

    over: str = "constants"
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()


@dataclass(frozen=True)
class Tflm:
    """TFLM's micro_frontend in integers, with its own window, transform and filter bank; its output times `scale`."""

    enabled: bool = False
    smoothing_bits: int = 10
    even_smoothing: float = 0.025
    odd_smoothing: float = 0.06
    min_signal_remaining: float = 0.05
    pcan: bool = True
    pcan_strength: float = 0.95
    pcan_offset: float = 80.0
    pcan_gain_bits: int = 21
    log_shift: int = 6
    scale: float = 0.0390625


@dataclass(frozen=True)
class Pipeline:
    """All sections of a `front_end.toml`."""

    name: str = "front_end"
    rate: int = 16000
    frame: Framing = Framing()
    spectrum: Spectrum = Spectrum()
    mel: Mel = Mel()
    log: Log = Log()
    dct: Dct = Dct()
    normalise: Normalise = Normalise()
    tflm: Tflm = Tflm()
    codes: Codes = Codes()

    @property
    def bins(self) -> int:
        return self.spectrum.n_fft // 2 + 1

    @property
    def values(self) -> int:
        """Mels, or bins where there are none."""
        return self.mel.count or self.bins

    @property
    def features(self) -> int:
        """Values of a frame that the network sees."""
        return self.dct.count or self.values

    @property
    def first(self) -> int:
        """The sample where the first window begins; below zero: zeros stand before the signal."""
        if self.frame.first == "centre":
            return (self.spectrum.n_fft - self.frame.length) // 2 - self.spectrum.n_fft // 2
        return int(self.frame.first)

    @property
    def fmax(self) -> float:
        return self.mel.fmax or self.rate / 2

    @property
    def output(self) -> Codes:
        return self.codes

    def for_input(self, codes: Codes) -> Pipeline:
        """The same for another network."""
        return dataclasses.replace(self, codes=codes)


SECTIONS: Mapping[str, type[Any]] = {
    **{"frame": Framing, "spectrum": Spectrum, "mel": Mel, "log": Log, "dct": Dct},
    **{"normalise": Normalise, "tflm": Tflm, "codes": Codes},
}
_first: Check = ('"centre" or a sample number', lambda value: value == "centre" or whole(-4096, 1 << 20)[1](value))
CHECKS: Mapping[str, Check] = {
    **declare.CHECKS,
    "rate": whole(1000, 384_000),
    "frame.length": whole(8, 4096),
    "frame.hop": whole(1, 1 << 20),
    "frame.first": _first,
    "frame.window": one_of(*WINDOWS),
    "frame.remove_mean": flag,
    "frame.pre_emphasis": real(0, 1),
    "frame.pre_emphasis_over": one_of("signal", "frame"),
    "spectrum.n_fft": one_of(*FFT_SIZES),
    "spectrum.of": one_of("power", "magnitude"),
    "spectrum.samples": one_of("unit", "integer"),
    "mel.count": whole(0, 512),
    "mel.scale": one_of("slaney", "htk"),
    "mel.norm": one_of("slaney", "none"),
    "mel.fmin": real(0, 192_000),
    "mel.fmax": real(0, 192_000),
    "mel.triangles": one_of("hertz", "mel", "bins"),
    "log.of": one_of(*LOGS),
    "log.guard": real(0, 1e6),
    "log.floor": real(0, 1e6),
    "log.top_db": real(0, 1000),
    "dct.count": whole(0, 512),
    "normalise.over": one_of("constants", "utterance"),
    "tflm.enabled": flag,
    "tflm.smoothing_bits": whole(3, 12),
    "tflm.even_smoothing": real(0, 1),
    "tflm.odd_smoothing": real(0, 1),
    "tflm.min_signal_remaining": real(0, 1),
    "tflm.pcan": flag,
    "tflm.pcan_strength": real(0, 2),
    "tflm.pcan_offset": real(1, 1e6),
    "tflm.pcan_gain_bits": whole(15, 30),
    "tflm.log_shift": whole(0, 8),
    "tflm.scale": real(1e-6, 1e6),
}


def _require(pipeline: Pipeline, source: Declaration) -> None:
    declare.require(_agreements(pipeline), source)
    if pipeline.normalise.over == "utterance" or pipeline.log.top_db:
        key = "log.top_db" if pipeline.log.top_db else "normalise.over"
        raise UnsupportedError(
            "needs the whole utterance", where=source.where(key),
            rule="frames are made one by one, before the end of the sound is known",
            remedy='train with constants: FrontEnd.measured(sounds) gives mean and deviation; or leave top_db out',
        )  # fmt: skip


def _agreements(p: Pipeline) -> list[Agreement]:
    length, n_fft, norm = p.frame.length, p.spectrum.n_fft, p.normalise
    log_needs = p.log.of == "none" or max(p.log.guard, p.log.floor) >= 1e-20
    enough = next((n for n in FFT_SIZES if n >= length), FFT_SIZES[-1])
    said = f"a window of {length} samples is longer than a transform of {n_fft}"
    sizes = (0, 1, p.features)
    return [
        ("spectrum.n_fft", length <= n_fft or p.tflm.enabled, said, f"n_fft = {enough}"),
        ("frame.first", -length < p.first, "the first window lies before the signal", "begin it later"),
        ("mel.fmin", p.mel.fmin < p.fmax, f"fmin {p.mel.fmin:g} Hz is not below fmax {p.fmax:g} Hz", "lower fmin"),
        ("mel.fmax", p.fmax <= p.rate / 2, f"fmax {p.fmax:g} Hz is above half the rate", f"fmax = {p.rate / 2:g}"),
        ("dct.count", p.dct.count <= p.values, f"{p.dct.count} of {p.values} values", f"count = {p.values}, or less"),
        ("log.guard", log_needs or p.tflm.enabled, "log(0): neither a guard nor a floor", "guard = 5.96e-8, or floor"),
        (
            *("log.of", p.log.of != "none" or p.tflm.enabled or p.codes.type != "float32"),
            *("floats without a logarithm are not offered: the smallest differ between cores", "name a log"),
        ),
        *(
            (f"normalise.{key}", len(given) in sizes, f"{len(given)} for {p.features} features", "one, or one for each")
            for key, given in (("mean", norm.mean), ("deviation", norm.deviation))
        ),
        ("normalise.deviation", all(x > 1e-20 for x in norm.deviation), "not above zero", "leave that feature at 1"),
        declare.codes_agree(p.codes),
        (
            *("tflm.enabled", not p.tflm.enabled or (p.mel.count > 0 and not p.dct.count and p.first == 0)),
            *("the integer front end has mels, no DCT, and begins at sample 0", "set mel.count; frame.first = 0"),
        ),
    ]  # fmt: skip


SOUND = declare.FrontEndKind(Pipeline(), declare.SOUNDS, tuple(SECTIONS), CHECKS, _require)


def presets() -> dict[str, str]:
    """Name -> text."""
    return declare.presets(SOUND.folder)


def load(source: str | Path | Mapping[str, Any] | Pipeline) -> Pipeline:
    """A preset by name, a file, the sections in Python, or what is declared already."""
    found: Pipeline = declare.load(source, SOUND)
    return found


def parse(text: str, place: str) -> Pipeline:
    found: Pipeline = declare.parse(text, place, SOUND)
    return found
