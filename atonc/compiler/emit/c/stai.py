"""`stai_<name>.c` and `.h`: the ST.AI interface that applications for Core 3.0 and later call.

Written on the published types of `stai.h` and on the LL_ATON interface only; the context is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from atonc.compiler.emit.c import buffers_info, names
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.memories import PoolRange, ranges
from atonc.compiler.emit.c.network import CNetwork
from atonc.machine.base.templates import Words, render
from atonc.machine.hw.limits import CPU_CACHE_LINE

_FORMATS = {
    "INT8": "S8", "UINT8": "U8", "INT16": "S16", "UINT16": "U16", "INT32": "S32", "UINT32": "U32", "INT64": "S64",
    "UINT64": "U64", "BOOL": "BOOL", "FLOAT": "FLOAT32", "DOUBLE": "FLOAT64",
}  # fmt: skip


def files(network: CNetwork, macs: int = 0) -> dict[str, bytes]:
    stem = f"stai_{network.name}"
    return {f"{stem}.h": header(network).encode(), f"{stem}.c": source(network, macs).encode()}


def header(network: CNetwork) -> str:
    weights, activations = _parts(network)
    return render(
        "network/stai.h",
        _words(network),
        origin=network.origin_name,
        line=CPU_CACHE_LINE,
        weights=len(weights),
        activations=len(activations),
        states_count=len(network.program.states),
        states_bytes=sum(one.size_bytes for one in network.program.states),
        states=[{"number": k, "size": one.size_bytes} for k, one in enumerate(network.program.states, 1)],
    )


def source(network: CNetwork, macs: int = 0) -> str:
    weights, activations = _parts(network)
    states = network.program.states
    return render(
        "network/stai.c",
        _words(network),
        suffix=network.suffix,
        macs=macs,
        steps=len(network.program.steps),
        memories=[
            _memory(network, "weight", [(part.start, part.size_bytes, part.pool.name) for part in weights]),
            _memory(network, "activation", [(part.start, part.size_bytes, part.pool.name) for part in activations]),
            _memory(network, "state", [(one.address, one.size_bytes, network.labels[one.name]) for one in states]),
        ],
    )


def _words(network: CNetwork) -> Words:
    edges = (("IN", "input", buffers_info.inputs(network)), ("OUT", "output", buffers_info.outputs(network)))
    return {
        **network.words,
        **{"net": network.name, "NET": network.name.upper()},
        "relative": bool(network.program.relative),
        "edges": [_edge(short, kind, infos) for short, kind, infos in edges],
    }


def _edge(short: str, kind: str, infos: Sequence[Info]) -> Words:
    """Inputs or outputs. C has no empty arrays: nothing (`none`) is one tensor of no bytes."""
    tensors = [_tensor(short, k, info) for k, info in enumerate(infos)]
    lists = {
        "alignments": [str(CPU_CACHE_LINE) for _ in infos],
        "names": [f'"{info.label}"' for info in infos],
        "formats": [str(tensor["format"]) for tensor in tensors],
        "sizes": [str(tensor["elements"]) for tensor in tensors],
        "sizes_bytes": [str(info.size_bytes) for info in infos],
    }
    return {
        **{"short": short, "kind": kind, "count": len(infos), "tensors": tensors, "none": not tensors},
        **{what: ", ".join(values) for what, values in lists.items()},
    }


def _tensor(short: str, k: int, info: Info) -> Words:
    sizes = dict(zip(("batch", "height", "width", "channel"), (info.shape[0], *info.shape[-3:]), strict=True))
    return {
        **{"k": k, "number": k + 1, "label": info.label, "flags": flags(info, short), "size": info.size_bytes},
        "format": f"STAI_FORMAT_{_FORMATS.get(info.type, 'NONE')}",
        "elements": prod(info.mem_shape),
        **sizes,
        **{"rank": len(info.mem_shape), "shape": ", ".join(map(str, info.mem_shape))},
        **{"scaled": bool(info.scales), "scales_count": len(info.scales)},
        "scales": ", ".join(map(names.float_literal, info.scales)),
        "offsets": ", ".join(map(str, info.offsets)),
    }


def flags(info: Info, short: str = "IN") -> str:
    """Inputs and outputs inside the activations lose their contents when the network runs."""
    found = ["STAI_FLAG_REPLACEABLE"] if info.user else ["STAI_FLAG_PREALLOCATED", "STAI_FLAG_OVERRIDE"]
    if info.position != "UNDEFINED":
        found.append(f"STAI_FLAG_CHANNEL_{info.position.upper()}")
    return " | ".join([*found, f"STAI_FLAG_{'INPUTS' if short == 'IN' else 'OUTPUTS'}"])


def _memory(network: CNetwork, kind: str, parts: Sequence[tuple[int, int, str]]) -> Words:
    """Memories with fixed addresses: each by its start, its size and its name."""
    flag = {"weight": "WEIGHTS", "activation": "ACTIVATIONS", "state": "STATES"}[kind]
    return {
        **{"kind": kind, "flag": flag, "none": not parts},
        "addresses": ", ".join(network.place(start) for start, _, _ in parts) or "0",
        "parts": [{"k": k, "size": size, "pool": names.word(name)} for k, (_, size, name) in enumerate(parts)],
    }


def _parts(network: CNetwork) -> tuple[list[PoolRange], list[PoolRange]]:
    parts = ranges(network)
    return [part for part in parts if part.data], [part for part in parts if not part.data]
