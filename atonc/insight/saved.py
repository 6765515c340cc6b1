"""Layers as `generate` saved them in NAME_program.json: a folder of ours keeps the names of its layers and the reasons.

The file may have been edited or belong to another build, so everything in it is checked and nothing of it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atonc.disk import read_file
from atonc.emu.files.types import CompiledNetwork
from atonc.errors import InputError, plain
from atonc.insight import rules as shaping
from atonc.insight.types import Decision, LayerView, NetworkView
from atonc.lower import rules as mapping
from atonc.reasons import Evidence, Rule, Severity

MAX_BYTES = 1 << 26
_MOST = 100_000  # layers, steps
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


@dataclass(frozen=True)
class Saved:
    model: str
    board: str
    layers: tuple[SavedLayer, ...]
    cpu_cycles: Mapping[int, tuple[int, bool]]  # CPU steps: cycles as predicted when compiled, and whether measured
    titles: Mapping[int, str] = field(default_factory=dict)


def layer_rows(network: NetworkView) -> list[dict[str, Any]]:
    return [_row(layer) for layer in network.layers]


def _row(layer: LayerView) -> dict[str, Any]:
    return {
        "name": layer.name,
        "op": layer.kind,
        "nodes": list(layer.nodes),
        "epochs": list(layer.steps),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "shape": list(layer.shape),
        "macs": layer.macs,
        "decisions": [one.as_dict() for one in layer.decisions],
    }


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
    cpu = {n: row for n, row in steps.items() if kinds[n] == "cpu"}
    return Saved(
        _text(root, "model"),
        _text(root, "board"),
        tuple(_layer(row, steps) for row in _rows(root, "layers")),
        {number: (_integer(row, "cycles"), row.get("cost_known") is True) for number, row in cpu.items()},
        {number: _text(row, "title") for number, row in steps.items()},
    )


def _layer(row: Mapping[str, Any], steps: Mapping[int, Any]) -> SavedLayer:
    epochs = tuple(_integers(row, "epochs"))
    if any(number not in steps for number in epochs):
        raise ValueError("epochs")
    return SavedLayer(
        _text(row, "name"),
        _text(row, "op"),
        tuple(_texts(row, "nodes")) or (_text(row, "name"),),
        epochs,
        tuple(_texts(row, "inputs")),
        tuple(_texts(row, "outputs")),
        tuple(_integers(row, "shape")),
        _integer(row, "macs"),
        tuple(_decision(one) for one in _rows(row, "decisions")),
    )


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


def _rows(value: Any, key: str) -> Sequence[Mapping[str, Any]]:
    found = value[key] if isinstance(value, dict) and key in value else None
    if not isinstance(found, list) or len(found) > _MOST or not all(isinstance(row, dict) for row in found):
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


def _texts(row: Mapping[str, Any], key: str) -> list[str]:
    return [_text({key: one}, key) for one in _list(row, key)]


def _integers(row: Mapping[str, Any], key: str) -> list[int]:
    return [_integer({key: one}, key) for one in _list(row, key)]


def _list(row: Mapping[str, Any], key: str) -> list[Any]:
    found = row.get(key)
    if not isinstance(found, list) or len(found) > _MOST:
        raise ValueError(key)
    return found
