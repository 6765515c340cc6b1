"""Layers as `generate` saved them in NAME_program.json: a folder of ours keeps the names of its layers and the reasons.

The file may have been edited or belong to another build, so everything in it is checked and nothing of it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from atonc.compiler.plan.types import BufferKind
from atonc.compiler.search.saved import KEY, as_json
from atonc.compiler.select import rules as mapping
from atonc.insight.explain import rules as shaping
from atonc.insight.explain.limits import LayerWork
from atonc.insight.explain.tensors import BINS
from atonc.insight.explain.types import (
    BufferView,
    Decision,
    EpochShare,
    LayerFacts,
    LayerView,
    NetworkView,
    TensorView,
    Verified,
)
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Evidence, Rule, Severity

if TYPE_CHECKING:
    from atonc.machine.emu.files.types import CompiledNetwork

MAX_BYTES = 1 << 26
_MOST = 100_000  # layers, steps
_MOST_BUFFERS = 20_000  # ten times those of the largest network that was tried
_LONG = 4096  # characters of one text


@dataclass(frozen=True)
class SavedLayer:
    """What does not depend on clocks: cycles are counted again from the program."""

    facts: LayerFacts
    epochs: tuple[int, ...]
    work: LayerWork | None = None  # None in files of releases that did not save it
    parts: tuple[EpochShare, ...] = ()


@dataclass(frozen=True)
class Saved:
    model: str
    board: str
    layers: tuple[SavedLayer, ...]
    titles: Mapping[int, str] = field(default_factory=dict)
    inputs: tuple[TensorView, ...] = ()
    outputs: tuple[TensorView, ...] = ()
    tensors: Mapping[str, TensorView] = field(default_factory=dict)
    verified: Verified | None = None
    buffers: tuple[BufferView, ...] = ()
    relocatable_bytes: int = 0  # RAM for programs whose addresses are set at run time
    code_constants_bytes: int = 0  # of CPU layers, in the C file
    options: Mapping[str, str] = field(default_factory=dict)
    reproduce: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # of the model and its compilation
    advice: Mapping[str, str] = field(default_factory=dict)  # options that were tried: flags, what each brings


def rows(network: NetworkView) -> dict[str, Any]:
    """What the program file keeps besides steps and buffers."""
    return {
        "edges": {
            "inputs": [_tensor_row(one) for one in network.inputs],
            "outputs": [_tensor_row(one) for one in network.outputs],
            "inner": [_tensor_row(one) for one in network.tensors.values()],
        },
        "verified": asdict(network.verified) if network.verified else None,
        "memory": network.memory.as_dict(),
        "notes": list(network.notes),
        "advice": dict(network.advice),
        "options": dict(network.options or {}),
        "reproduce": dict(network.reproduce),
        "layers": [_row(layer) for layer in network.layers],
        **({KEY: as_json(network.decisions)} if network.decisions else {}),
    }


def _tensor_row(one: TensorView) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if value is not None}


def _row(layer: LayerView) -> dict[str, Any]:
    return {
        "name": layer.name,
        "op": layer.kind,
        "nodes": list(layer.nodes),
        "epochs": list(layer.steps),
        **({"parts": [asdict(part) for part in layer.parts]} if layer.parts else {}),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "shape": list(layer.shape),
        "macs": layer.macs,
        "decisions": [one.as_dict() for one in layer.decisions],
        "label": layer.label,
        "attributes": dict(layer.attributes),
        "weights": [_tensor_row(one) for one in layer.weights],
        **({"error": asdict(layer.error)} if layer.error else {}),
        **({"work": asdict(layer.limit.work)} if layer.limit else {}),
    }


@dataclass(frozen=True)
class BuildRequest:
    """What a build was made from: the file name of the model, the options that were not at their defaults, hashes."""

    model: str
    board: str
    options: Mapping[str, str]
    reproduce: Mapping[str, str]


def read_asked(folder: Path, stem: str) -> BuildRequest | None:
    """None where the folder does not tell: it is not of ours, or of a release that did not save it."""
    try:
        root = json.loads(read_file(folder / f"{stem}_program.json", MAX_BYTES))
        return _record(BuildRequest, {"options": {}, "reproduce": {}} | root) if isinstance(root, dict) else None
    except (InputError, ValueError, TypeError, RecursionError):
        return None


def read_saved(network: CompiledNetwork, kinds: Mapping[int, str]) -> Saved | None:
    """None if there is no such file beside the network, or if it is not of this build; `kinds`: where epochs run."""
    path = network.directory / f"{network.stem}_program.json"
    try:
        return _saved(json.loads(read_file(path, MAX_BYTES)), kinds)
    except (InputError, ValueError, RecursionError):
        return None


def _saved(root: Any, kinds: Mapping[int, str]) -> Saved:
    try:
        return _checked(root, kinds)
    except (AttributeError, LookupError, TypeError) as wrong:  # something else where we write objects and lists
        raise ValueError("not as it was written") from wrong


def _checked(root: Any, kinds: Mapping[int, str]) -> Saved:
    steps = {_typed(int, row["number"]): row for row in _rows(root["steps"])}
    if {number: _typed(str, row["kind"]) for number, row in steps.items()} != dict(kinds):
        raise ValueError("another build")
    layers = tuple(_layer(row, steps) for row in _rows(root["layers"]))
    writers = {name: layer.facts.name for layer in layers for name in layer.facts.outputs}
    edges = root.get("edges") or {"inputs": [], "outputs": [], "inner": []}
    inputs, outputs, inner = (tuple(map(_tensor, _rows(edges[key]))) for key in ("inputs", "outputs", "inner"))
    memory = root.get("memory") or {}
    told = ("model", "board", "verified", "options", "reproduce", "notes", "advice")
    named = {key: root[key] for key in told if key in root}
    return _record(
        Saved,
        named,
        layers=layers,
        titles={number: _typed(str, row["title"]) for number, row in steps.items()},
        inputs=inputs,
        outputs=outputs,
        tensors={one.name: one for one in inner},
        buffers=tuple(_buffer(row, writers) for row in _rows(root["buffers"], _MOST_BUFFERS)),
        relocatable_bytes=_typed(int, memory["relocatable_bytes"]),
        code_constants_bytes=_typed(int, memory["code_constants_bytes"]),
    )


def _buffer(row: dict[str, Any], writers: Mapping[str, str]) -> BufferView:
    renamed = {**row, "first": row["first_step"], "last": row["last_step"]}
    kind, layer = BufferKind(_typed(str, row["kind"])), writers.get(row["name"], "")
    return _record(BufferView, renamed, kind=kind, layer=layer)


def _tensor(row: dict[str, Any]) -> TensorView:
    found = _record(TensorView, row)
    if (spread := found.spread) is not None:
        whole = len(spread.rows) == len(spread.lows) == len(spread.highs)
        if not whole or any(len(one) != BINS or not one.isdecimal() for one in spread.rows):
            raise ValueError("spread")
    return found


def _layer(row: dict[str, Any], steps: Mapping[int, Any]) -> SavedLayer:
    told = {member.name for member in fields(LayerFacts)} - {"on", "limit", "operators"}  # which follow from its steps
    facts = _record(
        LayerFacts,
        {key: value for key, value in row.items() if key in told},
        kind=_typed(str, row["op"]),
        decisions=tuple(map(_decision, _rows(row["decisions"]))),
        weights=tuple(map(_tensor, _rows(row.get("weights", [])))),
    )
    found = _record(SavedLayer, row, facts=facts if facts.nodes else replace(facts, nodes=(facts.name,)))
    if any(number not in steps for number in found.epochs):
        raise ValueError("epochs")
    for part in found.parts:
        inside = 0 <= part.before <= part.before + part.own <= part.all
        if part.epoch not in found.epochs or not inside or not part.all:
            raise ValueError("parts")
    return found


_KNOWN = {rule.id: rule for rule in (*mapping.RULES.values(), *shaping.RULES)}


def _decision(row: dict[str, Any]) -> Decision:
    """Its rule is ours if that still exists, else as the file has it."""
    id, seen, limit, remedy = (_typed(str, row[key]) for key in ("rule", "seen", "limit", "remedy"))
    evidence = Evidence(report="the version of atonc that compiled this network")
    rule = _KNOWN.get(id)
    if rule is None:
        rule = Rule(id, "saved", _typed(str, row["sentence"]), evidence, remedy, limit, Severity.NOTE)
    return Decision(rule, seen, limit, remedy, avoided=row.get("avoided") is True)


# --------------------------------------------------------------------------------------------------------- checked JSON

Record = TypeVar("Record")
_WRITTEN: Mapping[Any, tuple[str, ...]] = {  # by every build of ours, though other sources leave it at its default
    LayerFacts: ("macs",),
    TensorView: ("scales",),
    Verified: ("tensors", "sums"),
    BufferView: ("reserved_bytes",),
}


def _rows(value: Any, most: int = _MOST) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > most or not all(isinstance(row, dict) for row in value):
        raise ValueError("rows")
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _record(kind: type[Record], row: Any, /, **given: Any) -> Record:
    """A dataclass of ours from an object: every field by its type, those that are missing as they are by default."""
    if not isinstance(row, dict) or any(row.get(name) is None for name in _WRITTEN.get(kind, ())):
        raise ValueError(kind.__name__)
    made: Any = kind
    hints = _hints(made)
    told = [name for name in hints if name not in given and row.get(name) is not None]
    return kind(**{name: _typed(hints[name], row[name]) for name in told}, **given)


def _typed(kind: Any, value: Any) -> Any:
    """The value, if it is one of that type and of bearable size."""
    inner, origin = get_args(kind), get_origin(kind)
    if origin is UnionType:  # with None
        return None if value is None else _typed(inner[0], value)
    if kind is str and isinstance(value, str) and len(value) <= _LONG:
        return plain(value)
    if kind is int and type(value) is int and abs(value) <= 1 << 62:
        return value
    if kind is float and type(value) in (int, float) and abs(value) < 1e30:
        return float(value)
    if origin is tuple and isinstance(value, list) and len(value) <= _MOST:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_typed(one, item) for one, item in zip(kinds, value, strict=True))
    if origin is Mapping and isinstance(value, dict) and len(value) <= _MOST:
        return {_typed(str, key): _typed(inner[1], item) for key, item in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, value)
    raise ValueError(f"{kind}")
