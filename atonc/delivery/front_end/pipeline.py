"""What a front end does, declared: sections of `front_end.toml`, or the same in Python; read, checked, named by preset.

The defaults are those of a log-mel spectrogram of speech; the presets (`presets/*.toml`) say what packages do."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_text, read_toml
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass

PAGE = "docs/front_ends.md"
MOST_BYTES = 1 << 20
FFT_SIZES = tuple(1 << k for k in range(6, 13))
CODE_TYPES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "float32": (0, 0)}
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
    triangles: str = "hertz"  # straight sides over hertz, or over mel (Kaldi)


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
class Codes:
    """Codes that the network takes: real = (code - zero_point) * scale. `generate` takes them from the network."""

    type: str = "float32"
    scale: float = 1.0
    zero_point: int = 0


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
Check = tuple[str, Callable[[Any], bool]]  # what is allowed, and whether this is


def _one_of(*allowed: Any) -> Check:
    return f"one of {', '.join(map(str, allowed))}", lambda value: value in allowed


def _whole(low: int, high: int) -> Check:
    return f"a whole number from {low:,} to {high:,}", lambda value: type(value) is int and low <= value <= high


def _real(low: float, high: float) -> Check:
    return f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


_numbers: Check = (
    "a number, or a list of at most 4096",
    lambda value: (
        isinstance(value, tuple) and len(value) <= 4096 and all(_is_number(x) and abs(x) < 1e30 for x in value)
    ),
)
_flag: Check = ("true or false", lambda value: isinstance(value, bool))
_first: Check = ('"centre" or a sample number', lambda value: value == "centre" or _whole(-4096, 1 << 20)[1](value))
CHECKS: Mapping[str, Check] = {
    "name": ("a word", lambda value: isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z]\w{0,40}", value))),
    "rate": _whole(1000, 384_000),
    "frame.length": _whole(8, 4096),
    "frame.hop": _whole(1, 1 << 20),
    "frame.first": _first,
    "frame.window": _one_of(*WINDOWS),
    "frame.remove_mean": _flag,
    "frame.pre_emphasis": _real(0, 1),
    "frame.pre_emphasis_over": _one_of("signal", "frame"),
    "spectrum.n_fft": _one_of(*FFT_SIZES),
    "spectrum.of": _one_of("power", "magnitude"),
    "spectrum.samples": _one_of("unit", "integer"),
    "mel.count": _whole(0, 512),
    "mel.scale": _one_of("slaney", "htk"),
    "mel.norm": _one_of("slaney", "none"),
    "mel.fmin": _real(0, 192_000),
    "mel.fmax": _real(0, 192_000),
    "mel.triangles": _one_of("hertz", "mel"),
    "log.of": _one_of(*LOGS),
    "log.guard": _real(0, 1e6),
    "log.floor": _real(0, 1e6),
    "log.top_db": _real(0, 1000),
    "dct.count": _whole(0, 512),
    "normalise.over": _one_of("constants", "utterance"),
    "normalise.mean": _numbers,
    "normalise.deviation": _numbers,
    "tflm.enabled": _flag,
    "tflm.smoothing_bits": _whole(3, 12),
    "tflm.even_smoothing": _real(0, 1),
    "tflm.odd_smoothing": _real(0, 1),
    "tflm.min_signal_remaining": _real(0, 1),
    "tflm.pcan": _flag,
    "tflm.pcan_strength": _real(0, 2),
    "tflm.pcan_offset": _real(1, 1e6),
    "tflm.pcan_gain_bits": _whole(15, 30),
    "tflm.log_shift": _whole(0, 8),
    "tflm.scale": _real(1e-6, 1e6),
    "codes.type": _one_of(*CODE_TYPES),
    "codes.scale": _real(1e-20, 1e20),
    "codes.zero_point": _whole(-32768, 32767),
}


@dataclass(frozen=True)
class Declaration:
    """Where a declaration stands: a file with its text, or Python."""

    place: str
    text: str = ""

    def where(self, key: str) -> str:
        """File, line and key, as far as they are known."""
        section, _, name = key.rpartition(".")
        inside, found = "", 0
        for number, line in enumerate(self.text.splitlines(), 1):
            head = re.match(r"\s*\[\s*(\w+)\s*\]", line)
            inside = head[1] if head else inside
            if inside == section and (head is not None or re.match(rf"\s*{re.escape(name)}\s*=", line)):
                found = number
                if not head:
                    break
        return f"{self.place}:{found}: {key}" if found else f"{self.place}: {key}"


def presets() -> dict[str, str]:
    """Name -> text."""
    folder = resources.files("atonc.delivery.front_end") / "presets"
    found = {one.name.removesuffix(".toml"): one.read_text("utf-8") for one in folder.iterdir()}
    return dict(sorted(found.items()))


@cache
def _preset(name: str) -> Pipeline:
    return parse(presets()[name], f"preset {name}")


def load(source: str | Path | Mapping[str, Any] | Pipeline) -> Pipeline:
    """A preset by name, a file, the sections in Python, or what is declared already."""
    if isinstance(source, Pipeline):
        return checked(source, Declaration("front end"))
    if isinstance(source, Mapping):
        return from_sections(source, Declaration("front end"))
    if str(source) in presets():
        return _preset(str(source))
    path = Path(source)
    if path.suffix != ".toml":
        known = did_you_mean(str(source), presets(), f"presets: {', '.join(presets())}; or a file front_end.toml")
        raise InputError(f"{str(source)[:60]!r} is no preset and no .toml file", where="front end", remedy=known)
    return parse(read_text(path, MOST_BYTES), str(path))


def parse(text: str, place: str) -> Pipeline:
    try:
        return from_sections(read_toml(text), Declaration(place, text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is no TOML: {error}", where=place) from None


def from_sections(data: Mapping[str, Any], source: Declaration) -> Pipeline:
    """`based_on` names a preset: only what differs is said."""
    data = dict(data)
    base = data.pop("based_on", None)
    if base is not None and base not in presets():
        raise InputError(
            f"{str(base)[:40]!r} is no preset",
            where=source.where("based_on"),
            remedy=f"presets: {', '.join(presets())}",
        )
    pipeline = Pipeline() if base is None else _preset(base)
    for name, value in data.items():
        if name == "codes" and isinstance(value, Mapping) and value and "type" not in value:
            remedy = f"type = one of {', '.join(CODE_TYPES)}; or leave [codes] out: generate takes it from the network"
            raise InputError("[codes] has no type", where=source.where("codes"), remedy=remedy)
        if name in SECTIONS and isinstance(value, Mapping):
            section = dataclasses.replace(getattr(pipeline, name), **_section(name, value, source))
            pipeline = dataclasses.replace(pipeline, **{name: section})
        elif name in ("name", "rate"):
            pipeline = dataclasses.replace(pipeline, **{name: _value(name, value, source)})
        else:
            known = (*SECTIONS, "name", "rate", "based_on")
            remedy = did_you_mean(name, known, f"known: {', '.join(known)}")
            raise InputError(f"{name[:40]!r} is not known", where=source.where(name), remedy=remedy)
    return checked(pipeline, source)


def _section(name: str, given: Mapping[str, Any], source: Declaration) -> dict[str, Any]:
    known = [key.partition(".")[2] for key in CHECKS if key.startswith(f"{name}.")]
    for key in given:
        if key not in known:
            remedy = did_you_mean(key, known, f"known: {', '.join(known)}")
            raise InputError("is not known", where=source.where(f"{name}.{key[:40]}"), remedy=remedy)
    return {key: _value(f"{name}.{key}", value, source) for key, value in given.items()}


def _value(key: str, value: Any, source: Declaration) -> Any:
    allowed, holds = CHECKS[key]
    if CHECKS[key] is _numbers:
        value = tuple(value) if isinstance(value, list | tuple) else (value,)
    elif allowed.startswith("a number") and type(value) is int:
        value = float(value)
    if not holds(value):
        raise InputError(f"{str(value)[:40]!r} is not allowed", where=source.where(key), remedy=f"say {allowed}")
    return value


def checked(pipeline: Pipeline, source: Declaration) -> Pipeline:
    """Refuses values that do not go together."""
    for key in CHECKS:  # what Python replaced is checked too
        section, _, name = key.rpartition(".")
        _value(key, getattr(getattr(pipeline, section) if section else pipeline, name), source)
    for key, holds, what, remedy in _agreements(pipeline):
        if not holds:
            raise InputError(what, where=source.where(key), remedy=remedy)
    if pipeline.normalise.over == "utterance" or pipeline.log.top_db:
        key = "log.top_db" if pipeline.log.top_db else "normalise.over"
        raise UnsupportedError(
            "needs the whole utterance", where=source.where(key),
            rule="frames are made one by one, before the end of the sound is known",
            remedy='train with constants: FrontEnd.measured(sounds) gives mean and deviation; or leave top_db out',
        )  # fmt: skip
    return pipeline


def _agreements(p: Pipeline) -> list[tuple[str, bool, str, str]]:
    """Key, whether it holds, what is wrong, remedy."""
    length, n_fft, norm = p.frame.length, p.spectrum.n_fft, p.normalise
    least, most = CODE_TYPES[p.codes.type]
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
        ("codes.zero_point", least <= p.codes.zero_point <= most, f"is outside {p.codes.type}", f"{least} to {most}"),
        (
            *("tflm.enabled", not p.tflm.enabled or (p.mel.count > 0 and not p.dct.count and p.first == 0)),
            *("the integer front end has mels, no DCT, and begins at sample 0", "set mel.count; frame.first = 0"),
        ),
    ]  # fmt: skip
