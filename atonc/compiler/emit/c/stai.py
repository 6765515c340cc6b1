"""`stai_<name>.c` and `.h`: the ST.AI interface that applications for Core 3.0 and later call.

Written on the published types of `stai.h` and on the LL_ATON interface only; the context is our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from atonc.compiler.emit.c import buffers_info, names, relative
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.memories import PoolRange, ranges
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.c.stai_text import HEADER, SOURCE
from atonc.machine.hw.limits import CPU_CACHE_LINE

_FORMATS = {
    "INT8": "S8", "UINT8": "U8", "INT16": "S16", "UINT16": "U16", "INT32": "S32", "UINT32": "U32", "INT64": "S64",
    "UINT64": "U64", "BOOL": "BOOL", "FLOAT": "FLOAT32", "DOUBLE": "FLOAT64",
}  # fmt: skip


def files(network: CNetwork, macs: int = 0) -> dict[str, bytes]:
    stem = f"stai_{network.name}"
    return {f"{stem}.h": header(network).encode(), f"{stem}.c": source(network, macs).encode()}


# ------------------------------------------------------------------------------------------------------------- header


def header(network: CNetwork) -> str:
    weights, activations = _parts(network)
    edges = [*_edge_macros(network, "IN", buffers_info.inputs(network))]
    edges += ["", *_edge_macros(network, "OUT", buffers_info.outputs(network)), ""]
    counts = {"weights": str(len(weights)), "activations": str(len(activations)), "line": str(CPU_CACHE_LINE)}
    return _filled(HEADER, network, **counts, edges="\n".join(edges))


def _edge_macros(network: CNetwork, short: str, infos: Sequence[Info]) -> Iterator[str]:
    prefix = f"STAI_{network.name.upper()}_{short}"
    yield f"#define {prefix}_NUM ({len(infos)})"
    for what, values in (
        ("ALIGNMENTS", [str(CPU_CACHE_LINE) for _ in infos]),
        ("NAMES", [f'"{info.label}"' for info in infos]),
        ("FORMATS", [_format(info) for info in infos]),
        ("SIZES", [str(prod(info.mem_shape)) for info in infos]),
        ("SIZES_BYTES", [str(info.size_bytes) for info in infos]),
    ):
        yield f"#define {prefix}_{what} {{ {', '.join(values)} }}"
    for number, info in enumerate(infos, 1):
        yield ""
        for what, value in _one_edge(info, short):
            yield f"#define {prefix}_{number}_{what} {value}"


def _one_edge(info: Info, short: str) -> Iterator[tuple[str, str]]:
    batch, height, width, channels = info.shape[0], *info.shape[-3:]
    yield "ALIGNMENT", f"({CPU_CACHE_LINE})"
    yield "NAME", f'"{info.label}"'
    yield "FLAGS", f"({flags(info, short)})"
    yield "FORMAT", f"({_format(info)})"
    yield "SIZE", f"({prod(info.mem_shape)})"
    yield "SIZE_BYTES", f"({info.size_bytes})"
    for what, size in (("BATCH", batch), ("HEIGHT", height), ("WIDTH", width), ("CHANNEL", channels)):
        yield what, f"({size})"
    yield "RANK", f"({len(info.mem_shape)})"
    yield "SHAPE", f"{{ {', '.join(map(str, info.mem_shape))} }}"
    yield "SCALE_OFFSET_NUM", f"({len(info.scales)})"
    if info.scales:
        yield "SCALES", f"{{ {', '.join(map(names.float_literal, info.scales))} }}"
        yield "OFFSETS", f"{{ {', '.join(map(str, info.offsets))} }}"


def flags(info: Info, short: str = "IN") -> str:
    """Inputs and outputs inside the activations lose their contents when the network runs."""
    found = ["STAI_FLAG_REPLACEABLE"] if info.user else ["STAI_FLAG_PREALLOCATED", "STAI_FLAG_OVERRIDE"]
    if info.position != "UNDEFINED":
        found.append(f"STAI_FLAG_CHANNEL_{info.position.upper()}")
    return " | ".join([*found, f"STAI_FLAG_{'INPUTS' if short == 'IN' else 'OUTPUTS'}"])


def _format(info: Info) -> str:
    return f"STAI_FORMAT_{_FORMATS.get(info.type, 'NONE')}"


# ------------------------------------------------------------------------------------------------------------- source


def source(network: CNetwork, macs: int = 0) -> str:
    return _filled(SOURCE, network, tensors=_tensors(network, macs))


def _tensors(network: CNetwork, macs: int) -> str:
    weights, activations = _parts(network)
    parts = [
        *([relative.declarations(network)] if network.program.relative else []),
        *_edge_tensors("input", buffers_info.inputs(network)),
        *_edge_tensors("output", buffers_info.outputs(network)),
        *_fixed_tensors(network, "weight", weights, "WEIGHTS"),
        *_fixed_tensors(network, "activation", activations, "ACTIVATIONS"),
        _info(network, macs),
    ]
    return "\n".join(parts)


def _edge_tensors(kind: str, infos: Sequence[Info]) -> Iterator[str]:
    rows = []
    for k, info in enumerate(infos):
        yield f"static const int32_t {kind}_{k}_shape[] = {{ {', '.join(map(str, info.mem_shape))} }};"
        members = [
            f".size_bytes = {info.size_bytes}U",
            f".flags = {flags(info, 'IN' if kind == 'input' else 'OUT')}",
            f".format = {_format(info)}",
            f".shape = {{ .size = {len(info.mem_shape)}U, .data = {kind}_{k}_shape }}",
            f'.name = "{info.label}"',
        ]
        if info.scales:
            scales = ", ".join(map(names.float_literal, info.scales))
            yield f"static const float {kind}_{k}_scale[] = {{ {scales} }};"
            yield f"static const int16_t {kind}_{k}_offset[] = {{ {', '.join(map(str, info.offsets))} }};"
            members.append(f".scale = {{ .size = {len(info.scales)}U, .data = {kind}_{k}_scale }}")
            members.append(f".zeropoint = {{ .size = {len(info.scales)}U, .data = {kind}_{k}_offset }}")
        rows.append(members)
    yield _table(f"{kind}_tensors", rows)


def _fixed_tensors(network: CNetwork, kind: str, parts: Sequence[PoolRange], flag: str) -> Iterator[str]:
    addresses = ", ".join(network.place(part.start) for part in parts) or "0"
    yield f"static const uintptr_t {kind}_addresses[] = {{ {addresses} }};"
    rows = []
    for k, part in enumerate(parts):
        yield f"static const int32_t {kind}_{k}_shape[] = {{ {part.size_bytes} }};"
        rows.append(
            [
                f".size_bytes = {part.size_bytes}U",
                f".flags = STAI_FLAG_PREALLOCATED | STAI_FLAG_{flag}",
                ".format = STAI_FORMAT_U8",
                f".shape = {{ .size = 1U, .data = {kind}_{k}_shape }}",
                f'.name = "{names.word(part.pool.name)}"',
            ]
        )
    yield _table(f"{kind}_tensors", rows)


def _table(name: str, rows: Sequence[Sequence[str]]) -> str:
    """C has no empty arrays: nothing is one tensor of no bytes."""
    lines = ["".join(f"    {member},\n" for member in row) for row in rows] or ["    .size_bytes = 0U,\n"]
    return f"static const stai_tensor {name}[] = {{\n" + "".join(f"  {{\n{row}  }},\n" for row in lines) + "};"


def _info(network: CNetwork, macs: int) -> str:
    net = network.name.upper()
    return f"""static const stai_network_info network_info = {{
  .model_signature = "",
  .c_compile_datetime = "",
  .c_model_name = STAI_{net}_C_MODEL_NAME,
  .c_model_datetime = "",
  .runtime_version = {{ LL_ATON_VERSION_MAJOR, LL_ATON_VERSION_MINOR, LL_ATON_VERSION_MICRO, 0 }},
  .tool_version = {{ STAI_TOOLS_VERSION_MAJOR, STAI_TOOLS_VERSION_MINOR, STAI_TOOLS_VERSION_MICRO, 0 }},
  .api_version = {{ STAI_API_VERSION_MAJOR, STAI_API_VERSION_MINOR, STAI_API_VERSION_MICRO, 0 }},
  .n_macc = {macs}ULL,
  .n_nodes = {len(network.program.steps)}U,
  .flags = STAI_{net}_FLAGS,
  .n_inputs = STAI_{net}_IN_NUM,
  .n_outputs = STAI_{net}_OUT_NUM,
  .n_activations = STAI_{net}_ACTIVATIONS_NUM,
  .n_weights = STAI_{net}_WEIGHTS_NUM,
  .n_states = 0,
  .inputs = input_tensors,
  .outputs = output_tensors,
  .activations = activation_tensors,
  .weights = weight_tensors,
}};
"""


def _parts(network: CNetwork) -> tuple[list[PoolRange], list[PoolRange]]:
    parts = ranges(network)
    return [part for part in parts if part.data], [part for part in parts if not part.data]


def _filled(template: str, network: CNetwork, **more: str) -> str:
    """Templates in C are easier to read without doubled braces."""
    values = {"net": network.name, "NET": network.name.upper(), "suffix": network.suffix, "tool": network.tool, **more}
    values["origin"] = network.origin_name
    for key, value in values.items():
        template = template.replace(f"@{key}@", value)
    return template
