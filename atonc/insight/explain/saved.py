"""Layers as `generate` saved them in NAME_program.json: a folder of ours keeps the names of its layers and the reasons.

The file may have been edited or belong to another build, so everything in it is checked and nothing of it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.plan.types import BufferKind
from atonc.compiler.search.saved import KEY, as_json
from atonc.compiler.select import rules as mapping
from atonc.insight.explain import rules as shaping
from atonc.insight.explain.limits import LayerWork
from atonc.insight.explain.spread import BINS, Spread
from atonc.insight.explain.types import (
    BufferView,
    Decision,
    EpochShare,
    LayerError,
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

    name: str
    kind: str
    nodes: tuple[str, ...]
    epochs: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shape: tuple[int, ...]
    macs: int
    decisions: tuple[Decision, ...]
    label: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[TensorView, ...] = ()
    error: LayerError | None = None
    work: LayerWork | None = None
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
        "options": dict(network.options or {}),
        "reproduce": dict(network.reproduce),
        "layers": layer_rows(network),
        **({KEY: as_json(network.decisions)} if network.decisions else {}),
    }


def _tensor_row(one: TensorView) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if value is not None}


def layer_rows(network: NetworkView) -> list[dict[str, Any]]:
    return [_row(layer) for layer in network.layers]


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
        if not isinstance(root, dict):
            return None
        told = _text_by_name(root, "options"), _text_by_name(root, "reproduce")
        return BuildRequest(_text(root, "model"), _text(root, "board"), *told)
    except (InputError, ValueError, RecursionError):
        return None


def read_saved(network: CompiledNetwork, kinds: Mapping[int, str]) -> Saved | None:
    """None if there is no such file beside the network, or if it is not of this build; `kinds`: where epochs run."""
    path = network.directory / f"{network.stem}_program.json"
    try:
        return _saved(json.loads(read_file(path, MAX_BYTES)), kinds)
    except (InputError, ValueError, RecursionError):
        return None


def _saved(root: Any, kinds: Mapping[int, str]) -> Saved:
    steps = {_integer(row, "number"): row for row in _rows(root, "steps")}
    if {number: _text(row, "kind") for number, row in steps.items()} != dict(kinds):
        raise ValueError("another build")
    layers = tuple(_layer(row, steps) for row in _rows(root, "layers"))
    writers = {name: layer.name for layer in layers for name in layer.outputs}
    inputs, outputs, tensors = _edges(root)
    return Saved(
        model=_text(root, "model"),
        board=_text(root, "board"),
        layers=layers,
        titles={number: _text(row, "title") for number, row in steps.items()},
        inputs=inputs,
        outputs=outputs,
        tensors=tensors,
        verified=_verified(root),
        buffers=tuple(_buffer(row, writers) for row in _rows(root, "buffers", _MOST_BUFFERS)),
        relocatable_bytes=_integer(_object(root, "memory"), "relocatable_bytes"),
        code_constants_bytes=_integer(_object(root, "memory"), "code_constants_bytes"),
        options=_text_by_name(root, "options"),
        reproduce=_text_by_name(root, "reproduce"),
        notes=tuple(_texts(root, "notes")) if "notes" in root else (),
    )


def _buffer(row: Mapping[str, Any], writers: Mapping[str, str]) -> BufferView:
    name = _text(row, "name")
    return BufferView(
        name=name,
        pool=_text(row, "pool"),
        address=_integer(row, "address"),
        size_bytes=_integer(row, "size_bytes"),
        first=_integer(row, "first_step"),
        last=_integer(row, "last_step"),
        kind=BufferKind(_text(row, "kind")),
        layer=writers.get(name, ""),
        reserved_bytes=_integer(row, "reserved_bytes"),
    )


def _edges(root: Any) -> tuple[tuple[TensorView, ...], tuple[TensorView, ...], dict[str, TensorView]]:
    edges = _object(root, "edges") or {"inputs": [], "outputs": [], "inner": []}
    listed = [tuple(_tensor(row) for row in _rows(edges, key)) for key in ("inputs", "outputs", "inner")]
    return listed[0], listed[1], {one.name: one for one in listed[2]}


def _tensor(row: Mapping[str, Any]) -> TensorView:
    numbers = _numbers({"": {k: row[k] for k in ("scale", "low", "high") if k in row}}, "")
    return TensorView(
        name=_text(row, "name"),
        shape=tuple(_integers(row, "shape")),
        dtype=_text(row, "dtype"),
        scale=numbers.get("scale"),
        zero_point=_integer(row, "zero_point") if "zero_point" in row else None,
        scales=_integer(row, "scales"),
        low=numbers.get("low"),
        high=numbers.get("high"),
        spread=_spread(row),
    )


def _spread(row: Mapping[str, Any]) -> Spread | None:
    found = _object(row, "spread")
    if not found:
        return None
    rows, lows, highs = tuple(_texts(found, "rows")), _integers(found, "lows"), _integers(found, "highs")
    if not len(rows) == len(lows) == len(highs) or any(len(one) != BINS or not one.isdecimal() for one in rows):
        raise ValueError("spread")
    counts = (_integer(found, name) for name in ("saturated", "elements"))
    return Spread(_integer(found, "channels"), rows, tuple(lows), tuple(highs), *counts)


def _verified(root: Any) -> Verified | None:
    found = _object(root, "verified")
    if not found:
        return None
    outputs = tuple(_output(row) for row in _list(found, "outputs"))
    worst = _number(found.get("worst_codes"))
    samples, layers, tensors = (_integer(found, name) for name in ("samples", "layers", "tensors"))
    return Verified(samples, layers, worst, outputs, tensors, _text(found, "sums"))


def _output(row: Any) -> tuple[str, float, float, float, float]:
    if not isinstance(row, list) or len(row) != 5:
        raise ValueError("outputs")
    return _text({"": row[0]}, ""), _number(row[1]), _number(row[2]), _number(row[3]), _number(row[4])


def _error(row: Mapping[str, Any]) -> LayerError | None:
    found = _object(row, "error")
    return LayerError(*(_number(found.get(key)) for key in ("codes", "differ_percent", "limit"))) if found else None


def _work(row: Mapping[str, Any]) -> LayerWork | None:
    """None in files of releases that did not save it."""
    found = _object(row, "work")
    if not found:
        return None
    outside = {kind: _integer(found["outside_bytes"], kind) for kind in _object(found, "outside_bytes")}
    names = ("macs", "lane_cycles", "read_bytes", "written_bytes", "program_words")
    return LayerWork(**{name: _integer(found, name) for name in names}, outside_bytes=outside)


def _layer(row: Mapping[str, Any], steps: Mapping[int, Any]) -> SavedLayer:
    epochs = tuple(_integers(row, "epochs"))
    if any(number not in steps for number in epochs):
        raise ValueError("epochs")
    return SavedLayer(
        name=_text(row, "name"),
        kind=_text(row, "op"),
        nodes=tuple(_texts(row, "nodes")) or (_text(row, "name"),),
        epochs=epochs,
        inputs=tuple(_texts(row, "inputs")),
        outputs=tuple(_texts(row, "outputs")),
        shape=tuple(_integers(row, "shape")),
        macs=_integer(row, "macs"),
        decisions=tuple(_decision(one) for one in _rows(row, "decisions")),
        label=_text(row, "label") if "label" in row else "",
        attributes=_text_by_name(row, "attributes"),
        weights=tuple(_tensor(one) for one in _rows(row, "weights")) if "weights" in row else (),
        error=_error(row),
        work=_work(row),
        parts=tuple(_part(one, epochs) for one in _rows(row, "parts")) if "parts" in row else (),
    )


def _part(row: Mapping[str, Any], epochs: Sequence[int]) -> EpochShare:
    epoch, before, own, total = (_integer(row, key) for key in ("epoch", "before", "own", "all"))
    if epoch not in epochs or not 0 <= before <= before + own <= total or not total:
        raise ValueError("parts")
    return EpochShare(epoch, before, own, total, tuple(_texts(row, "units")))


def _decision(row: Mapping[str, Any]) -> Decision:
    seen, limit, remedy = (_text(row, key) for key in ("seen", "limit", "remedy"))
    return Decision(_rule(row), seen, limit, remedy, avoided=row.get("avoided") is True)


def _rule(row: Mapping[str, Any]) -> Rule:
    """Ours if it still exists, else as the file has it."""
    known = _KNOWN.get(_text(row, "rule"))
    evidence = Evidence(report="the version of atonc that compiled this network")
    limit, remedy = _text(row, "limit"), _text(row, "remedy")
    return known or Rule(_text(row, "rule"), "saved", _text(row, "sentence"), evidence, remedy, limit, Severity.NOTE)


_KNOWN = {rule.id: rule for rule in (*mapping.RULES.values(), *shaping.RULES)}


# --------------------------------------------------------------------------------------------------------- checked JSON


def _rows(value: Any, key: str, most: int = _MOST) -> Sequence[Mapping[str, Any]]:
    found = value[key] if isinstance(value, dict) and key in value else None
    if not isinstance(found, list) or len(found) > most or not all(isinstance(row, dict) for row in found):
        raise ValueError(key)
    return found


def _text(row: Mapping[str, Any], key: str) -> str:
    found = row.get(key)
    if not isinstance(found, str) or len(found) > _LONG:
        raise ValueError(key)
    return plain(found)


def _integer(row: Mapping[str, Any], key: str) -> int:
    found = row.get(key)
    if type(found) is not int or abs(found) > 1 << 62:
        raise ValueError(key)
    return found


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < 1e30:
        raise ValueError("number")
    return float(value)


def _numbers(row: Mapping[str, Any], key: str) -> dict[str, float]:
    return {_text({key: name}, key): _number(value) for name, value in _object(row, key).items()}


def _object(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Empty if it is not there."""
    found = row.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict) or len(found) > _MOST:
        raise ValueError(key)
    return found


def _text_by_name(row: Mapping[str, Any], key: str) -> dict[str, str]:
    return {_text({"": k}, ""): _text({"": v}, "") for k, v in _object(row, key).items()}


def _texts(row: Mapping[str, Any], key: str) -> list[str]:
    return [_text({key: one}, key) for one in _list(row, key)]


def _integers(row: Mapping[str, Any], key: str) -> list[int]:
    return [_integer({key: one}, key) for one in _list(row, key)]


def _list(row: Mapping[str, Any], key: str) -> list[Any]:
    found = row.get(key)
    if not isinstance(found, list) or len(found) > _MOST:
        raise ValueError(key)
    return found
