"""`c_info.json`: what the compiler estimated, per epoch and memory pool.

Two writers exist: the compiler itself and the front end, which adds totals and renumbers. Both use schema 2.0; what one
of them leaves out has a default here.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import AtoncError, InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.types import CompiledNetwork

MAX_JSON_BYTES = 1 << 28
_LARGEST = 2.0**64
_EPOCH = re.compile(r"epoch_(\d{1,6})")
_BLOB = re.compile(r"Epoch Controller (\w+)")
_KIND = re.compile(r"Node kind=(\w+)")


@dataclass(frozen=True)
class InfoPool:
    id: int
    name: str
    postfix: str
    address: int | None
    size_bytes: int
    used_bytes: int
    byte_width: int
    freq_ratio: float
    cacheable: bool
    subpools: tuple[int, ...]  # of a virtual pool
    writable: bool = True


@dataclass(frozen=True)
class InfoBuffer:
    id: int
    name: str
    pool: int
    offset: int
    size_bytes: int
    is_param: bool
    first_epoch: int
    last_epoch: int
    shape: tuple[int, ...] = ()
    dtype: str = ""  # int8, uint8, float32, ... as far as the file says
    scales: tuple[float, ...] = ()
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class PoolTraffic:
    """Traffic between an epoch and a pool: bytes and estimated cycles."""

    pool: int
    reads: int
    writes: int
    read_cycles: int
    write_cycles: int


@dataclass(frozen=True)
class EpochPart:
    """A compiler node inside an epoch."""

    name: str
    kind: str
    unit: str = ""  # as printed: "ARITH_ACC_V2 0"
    inputs: tuple[int, ...] = ()  # buffers, by id
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class InfoNode:
    """An epoch."""

    id: int
    name: str
    epoch: int | None
    mapping: str  # HW, EC, SW, SW_HW, NO_X
    blob: str | None
    original_nodes: tuple[str, ...]
    parts: tuple[EpochPart, ...]
    macc: int = 0
    ops: int = 0
    compute_cycles: int = 0
    max_cycles: int = 0
    accesses: tuple[PoolTraffic, ...] = ()
    inputs: tuple[int, ...] = ()  # buffers, by id
    outputs: tuple[int, ...] = ()
    title: str = ""  # in files of atonc


@dataclass(frozen=True)
class CInfo:
    path: Path
    tools: Mapping[str, str]
    pools: tuple[InfoPool, ...]
    nodes: tuple[InfoNode, ...]
    buffers: tuple[InfoBuffer, ...]
    by_epoch: Mapping[int, InfoNode] = field(default_factory=dict, repr=False, compare=False)
    arguments: Mapping[str, str] = field(default_factory=dict)  # tool -> what it was called with
    model: str = ""  # file name of the model
    inputs: tuple[int, ...] = ()  # buffers, by id
    outputs: tuple[int, ...] = ()


def find_c_info(network: CompiledNetwork) -> Path | None:
    """The file beside the network, if there is one; Core 4.0 puts the model's name and the command into its name."""
    names = (f"{network.stem}_c_info.json", "c_info.json")
    found = [network.directory / name for name in names]
    for command in ("generate", "analyze"):
        found += sorted(network.directory.glob(f"{glob.escape(network.stem)}_*_c_info_{command}.json"))
    return next((path for path in found if path.is_file()), None)


def fitting_c_info(network: CompiledNetwork) -> tuple[CInfo | None, tuple[str, ...]]:
    """The description beside a network if it is of the same compilation, else a note that says why not."""
    path = find_c_info(network)
    if path is None:
        return None, ()
    try:
        info = read_c_info(path)
        wrong = mismatch(info, network)
    except AtoncError as error:
        return None, (f"{path.name} cannot be used: {error.one_line}",)
    return (None, (f"{path.name} belongs to another compilation: {wrong}",)) if wrong else (info, ())


def read_c_info(path: Path) -> CInfo:
    root = _InfoReader(_load(path), str(path))
    traffic: dict[int, list[PoolTraffic]] = {}
    for row in root.rows("memory_accesses"):
        access = PoolTraffic(
            row.integer("mpool_id"),
            row.integer("reads"),
            row.integer("writes"),
            row.integer("read_cycles"),
            row.integer("write_cycles"),
        )
        if access.reads or access.writes or access.read_cycles or access.write_cycles:
            traffic.setdefault(row.integer("node_id"), []).append(access)
    estimates = {row.integer("node_id"): row for row in root.rows("power_estimates")}
    nodes = tuple(
        _node(row, blob, estimates.get(row.integer("id")), tuple(traffic.get(row.integer("id"), ())))
        for graph in root.rows("graphs")
        for row, blob in _epochs(graph)
    )
    return CInfo(
        path=path,
        tools=_tools(root),
        pools=tuple(_pool(row) for row in root.rows("memory_pools")),
        nodes=nodes,
        buffers=tuple(_buffer(row) for row in root.rows("buffers")),
        by_epoch={node.epoch: node for node in nodes if node.epoch is not None},
        arguments=_tools(root, "arguments"),
        model=_model(root),
        inputs=tuple(number for graph in root.rows("graphs") for number in graph.integers("inputs")),
        outputs=tuple(number for graph in root.rows("graphs") for number in graph.integers("outputs")),
    )


def _model(root: _InfoReader) -> str:
    """The file that was compiled, as the front end names it."""
    models = [tool.part("input_model") for tool in root.part("environment").rows("tools")]
    files = [file.text("name") for model in models for file in model.rows("model_files")]
    return next((name for name in (*files, *(model.text("name") for model in models)) if name), "")


def _load(path: Path) -> Any:
    try:
        return json.loads(read_file(path, MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", where=str(path), remedy="fetch or generate it again") from None


class _InfoReader:
    """A JSON object whose members may be absent but not of a wrong type."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise InputError("an object is expected here", where=where)
        self.value, self.where = value, where

    def rows(self, key: str) -> list[_InfoReader]:
        return [_InfoReader(row, f"{self.where}, {key}[{i}]") for i, row in enumerate(self.plain_list(key))]

    def plain_list(self, key: str) -> list[Any]:
        value = self.value.get(key, [])
        if value == {}:  # the front end writes an empty object for an empty list
            value = []
        return value if isinstance(value, list) else self._wrong(key, "a list")

    def integer(self, key: str) -> int:
        value = self.value.get(key, 0)
        return value if type(value) is int else self._wrong(key, "an integer")

    def number(self, key: str) -> float:
        value = self.value.get(key, 0)
        sound = type(value) in (int, float) and abs(value) < _LARGEST
        return float(value) if sound else self._wrong(key, "a number")

    def text(self, key: str) -> str:
        value = self.value.get(key, "")
        return plain(value) if isinstance(value, str) else self._wrong(key, "a text")

    def integers(self, key: str) -> tuple[int, ...]:
        """Each once, in the order of the file."""
        return tuple(dict.fromkeys(value for value in self.plain_list(key) if type(value) is int))

    def part(self, key: str) -> _InfoReader:
        return _InfoReader(self.value.get(key, {}), f"{self.where}, {key}")

    def _wrong(self, key: str, expected: str) -> Any:
        raise InputError(f"{key} is not {expected}", where=self.where)


def _pool(row: _InfoReader) -> InfoPool:
    attributes, address = row.part("attributes"), row.text("address")
    parts = row.text("fname").split(".")  # atonbuf.xSPI2.raw
    return InfoPool(
        id=row.integer("id"),
        name=row.text("name"),
        postfix=parts[1] if len(parts) > 2 else parts[0],
        address=int(address) if re.fullmatch(r"\d{1,20}", address) else None,
        size_bytes=row.integer("size_bytes"),
        used_bytes=row.integer("used_size_bytes"),
        byte_width=max(1, attributes.integer("byte_width")),
        freq_ratio=attributes.number("freq_ratio"),
        cacheable=row.text("cacheable") == "CACHEABLE_ON",
        subpools=tuple(v for v in row.plain_list("subpools") if isinstance(v, int)),
        writable=row.text("rights") != "ACC_READ",
    )


_FORMATS = {"S8": "int8", "U8": "uint8", "S16": "int16", "U16": "uint16", "S32": "int32", "FLOAT32": "float32"}


def _buffer(row: _InfoReader) -> InfoBuffer:
    epochs, quant = row.part("epochs"), row.part("intq")
    kind = row.text("format").removeprefix("STAI_FORMAT_")
    scales = [float(v) for v in quant.plain_list("scales") if type(v) in (int, float) and 0 < v < _LARGEST]
    return InfoBuffer(
        id=row.integer("id"),
        name=row.text("name"),
        pool=row.integer("mpool_id"),
        offset=row.integer("offset_start"),
        size_bytes=row.integer("size_bytes"),
        is_param=bool(row.value.get("is_param", False)),
        first_epoch=epochs.integer("start"),
        last_epoch=epochs.integer("end"),
        shape=tuple(v for v in row.plain_list("shape") if type(v) is int),
        dtype=_FORMATS.get(kind, kind.lower()),
        scales=tuple(scales),
        offsets=tuple(v for v in quant.plain_list("offsets") if type(v) is int),
    )


def _epochs(graph: _InfoReader) -> Iterator[tuple[_InfoReader, str | None]]:
    """Epochs with the blob that holds them. Compilers since 1.1.3 nest the epochs of a blob in a node of the blob."""
    for row in graph.rows("nodes"):
        inner = row.rows("subgraph_nodes")
        if inner and all(_EPOCH.fullmatch(part.text("name")) for part in inner):
            yield from ((part, row.text("name")) for part in inner)
        else:
            blob = _BLOB.search(row.text("description"))
            yield row, blob[1] if blob else None


def _node(
    row: _InfoReader, blob: str | None, estimate: _InfoReader | None, accesses: tuple[PoolTraffic, ...]
) -> InfoNode:
    name, mapping = row.text("name"), row.text("mapping").removeprefix("NODE_")
    epoch = _EPOCH.fullmatch(name)

    def estimated(key: str) -> int:
        return estimate.integer(key) if estimate is not None else 0

    return InfoNode(
        id=row.integer("id"),
        name=name,
        epoch=int(epoch[1]) if epoch else None,
        mapping="EC" if blob else mapping,
        blob=blob,
        original_nodes=tuple(v for v in row.plain_list("original_nodes") if isinstance(v, str)),
        parts=tuple(_part(part) for part in row.rows("subgraph_nodes")),
        macc=row.integer("macc"),
        ops=estimated("ops"),
        compute_cycles=estimated("compute_cycles"),
        max_cycles=estimated("max_cycles"),
        accesses=accesses,
        inputs=row.integers("inputs"),
        outputs=row.integers("outputs"),
        title=row.part("attributes").text("title"),
    )


def _part(row: _InfoReader) -> EpochPart:
    kind = _KIND.search(row.text("description"))
    return EpochPart(
        row.text("name"),
        kind[1] if kind else row.text("type"),
        row.part("attributes").text("HWUnit"),
        row.integers("inputs"),
        row.integers("outputs"),
    )


def _tools(root: _InfoReader, what: str = "version") -> dict[str, str]:
    """Name -> version (or arguments) of the tools that made the file."""
    tools = root.part("environment").rows("tools")
    return {tool.text("name"): tool.text(what) for tool in tools}


def mismatch(info: CInfo, network: CompiledNetwork) -> str | None:
    """Why these are not the same compilation, in one sentence; None if nothing speaks against it."""
    bases = {pool.id: pool.address for pool in info.pools}
    params = ((b, bases.get(b.pool)) for b in info.buffers if b.is_param)
    places = {b.name: base + b.offset for b, base in params if base is not None}
    for param in network.params:
        other = places.get(param.name)
        if other is not None and other != param.address:
            return f"constant {param.name} lies at {param.address:#x} in the C file, at {other:#x} in the JSON"
    if network.params and not any(param.name in places for param in network.params):
        return "they name no constant in common"
    last = max((block.last_epoch_num or block.epoch_num or 0 for block in network.blocks), default=0)
    if info.by_epoch and not 0 <= max(info.by_epoch) - last <= 1:
        return f"the C file ends with epoch {last}, the JSON with {max(info.by_epoch)}"
    for block in network.blocks:
        node = info.by_epoch.get(block.epoch_num) if block.epoch_num is not None else None
        if node is not None and (node.blob is not None) != (block.blob is not None):
            return f"epoch {block.epoch_num} is part of a blob in only one of them"
    return None
