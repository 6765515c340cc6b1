"""How front ends are declared: sections of a TOML file, or the same in Python, on top of a preset; every mistake is
said with its place. The sections are those of a `FrontEndKind`: of sounds (`pipeline.py`), of images (`image.py`)."""

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
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

MOST_BYTES = 1 << 20
FOLDERS = SOUNDS, IMAGES = "presets", "image_presets"
CODE_TYPES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "float32": (0, 0)}
Check = tuple[str, Callable[[Any], bool]]  # what is allowed, and whether this is


@dataclass(frozen=True)
class Codes:
    """Codes that the network takes: real = (code - zero_point) * scale. `generate` takes them from the network."""

    type: str = "float32"
    scale: float = 1.0
    zero_point: int = 0


def one_of(*allowed: Any) -> Check:
    return f"one of {', '.join(map(str, allowed))}", lambda value: value in allowed


def whole(low: int, high: int) -> Check:
    return f"a whole number from {low:,} to {high:,}", lambda value: type(value) is int and low <= value <= high


def real(low: float, high: float) -> Check:
    return f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


numbers: Check = (
    "a number, or a list of at most 4096",
    lambda value: (
        isinstance(value, tuple) and len(value) <= 4096 and all(_is_number(x) and abs(x) < 1e30 for x in value)
    ),
)
flag: Check = ("true or false", lambda value: isinstance(value, bool))
CHECKS: Mapping[str, Check] = {
    "name": ("a word", lambda value: isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z]\w{0,40}", value))),
    "normalise.mean": numbers,
    "normalise.deviation": numbers,
    "codes.type": one_of(*CODE_TYPES),
    "codes.scale": real(1e-20, 1e20),
    "codes.zero_point": whole(-32768, 32767),
}
Agreement = tuple[str, bool, str, str]  # key, whether it holds, what is wrong, remedy


def codes_agree(codes: Codes) -> Agreement:
    least, most = CODE_TYPES[codes.type]
    return "codes.zero_point", least <= codes.zero_point <= most, f"is outside {codes.type}", f"{least} to {most}"


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
            if head and head[1] == key:  # a section as a whole
                found = number
            elif inside == section and (head is not None or re.match(rf"\s*{re.escape(name)}\s*=", line)):
                found = number
                if not head:
                    break
        return f"{self.place}:{found}: {key}" if found else f"{self.place}: {key}"


@dataclass(frozen=True)
class FrontEndKind:
    """`plain`: the default of everything, whose fields are the sections; `folder`: presets; `require` refuses values
    that do not go together."""

    plain: Any
    folder: str
    sections: tuple[str, ...]
    checks: Mapping[str, Check]
    require: Callable[[Any, Declaration], None]

    @property
    def keys(self) -> tuple[str, ...]:
        """Those outside of sections."""
        return tuple(key for key in self.checks if "." not in key)


@cache
def presets(folder: str) -> dict[str, str]:
    """Name -> text."""
    there = resources.files("atonc.delivery.front_end") / folder
    found = {one.name.removesuffix(".toml"): one.read_text("utf-8") for one in there.iterdir()}
    return dict(sorted(found.items()))


def text_of(path: Path) -> str:
    return read_text(path, MOST_BYTES)


def load(source: Any, kind: FrontEndKind) -> Any:
    """A preset by name, a file, the sections in Python, or what is declared already."""
    if isinstance(source, type(kind.plain)):
        return checked(source, Declaration("front end"), kind)
    if isinstance(source, Mapping):
        return from_sections(source, Declaration("front end"), kind)
    if str(source) in presets(kind.folder):
        return _preset(str(source), kind)
    path = Path(source)
    if path.suffix != ".toml":
        known = [name for folder in FOLDERS for name in presets(folder)]
        remedy = did_you_mean(str(source), known, f"presets: {', '.join(known)}; or a file front_end.toml")
        raise InputError(f"{str(source)[:60]!r} is no preset and no .toml file", where="front end", remedy=remedy)
    return parse(text_of(path), str(path), kind)


def _preset(name: str, kind: FrontEndKind) -> Any:
    return parse(presets(kind.folder)[name], f"preset {name}", kind)


def parse(text: str, place: str, kind: FrontEndKind) -> Any:
    try:
        return from_sections(read_toml(text), Declaration(place, text), kind)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is no TOML: {error}", where=place) from None


def from_sections(data: Mapping[str, Any], source: Declaration, kind: FrontEndKind) -> Any:
    """`based_on` names a preset: only what differs is said."""
    data = dict(data)
    base = data.pop("based_on", None)
    if base is not None and base not in presets(kind.folder):
        sounds, images = (", ".join(presets(folder)) for folder in FOLDERS)
        raise InputError(
            f"{str(base)[:40]!r} is no preset of {'sounds' if kind.folder == SOUNDS else 'images'}",
            where=source.where("based_on"), remedy=f"presets of sounds: {sounds}; of images: {images}",
        )  # fmt: skip
    pipeline = kind.plain if base is None else _preset(base, kind)
    for name, value in data.items():
        if name == "codes" and isinstance(value, Mapping) and value and "type" not in value:
            remedy = f"type = one of {', '.join(CODE_TYPES)}; or leave [codes] out: generate takes it from the network"
            raise InputError("[codes] has no type", where=source.where("codes"), remedy=remedy)
        if name in kind.sections and isinstance(value, Mapping):
            section = dataclasses.replace(getattr(pipeline, name), **_section(name, value, source, kind))
            pipeline = dataclasses.replace(pipeline, **{name: section})
        elif name in kind.keys:
            pipeline = dataclasses.replace(pipeline, **{name: _value(name, value, source, kind)})
        else:
            known = (*kind.sections, *kind.keys, "based_on")
            remedy = did_you_mean(name, known, f"known: {', '.join(known)}")
            raise InputError(f"{name[:40]!r} is not known", where=source.where(name), remedy=remedy)
    return checked(pipeline, source, kind)


def _section(name: str, given: Mapping[str, Any], source: Declaration, kind: FrontEndKind) -> dict[str, Any]:
    known = [key.partition(".")[2] for key in kind.checks if key.startswith(f"{name}.")]
    for key in given:
        if key not in known:
            remedy = did_you_mean(key, known, f"known: {', '.join(known)}")
            raise InputError("is not known", where=source.where(f"{name}.{key[:40]}"), remedy=remedy)
    return {key: _value(f"{name}.{key}", value, source, kind) for key, value in given.items()}


def _value(key: str, value: Any, source: Declaration, kind: FrontEndKind) -> Any:
    allowed, holds = kind.checks[key]
    if kind.checks[key] is numbers:
        value = tuple(value) if isinstance(value, list | tuple) else (value,)
    elif allowed.startswith("a number") and type(value) is int:
        value = float(value)
    elif isinstance(value, list):
        value = tuple(value)
    if not holds(value):
        raise InputError(f"{str(value)[:40]!r} is not allowed", where=source.where(key), remedy=f"say {allowed}")
    return value


def checked(pipeline: Any, source: Declaration, kind: FrontEndKind) -> Any:
    """Refuses values that do not go together."""
    for key in kind.checks:  # what Python replaced is checked too
        section, _, name = key.rpartition(".")
        _value(key, getattr(getattr(pipeline, section) if section else pipeline, name), source, kind)
    kind.require(pipeline, source)
    return pipeline


def require(agreements: list[Agreement], source: Declaration) -> None:
    for key, holds, what, remedy in agreements:
        if not holds:
            raise InputError(what, where=source.where(key), remedy=remedy)
