"""Values as a network takes them: real numbers become codes of the input's format, codes stay as they are, everything
else is refused. The command line and `atonc.run` share this."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array, Graph, Tensor
from atonc.machine.base.errors import InputError
from atonc.machine.emu import tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atonc.compiler.compile.pipeline import Compiled
    from atonc.machine.emu.network import EmulatedNetwork


def as_input(tensor: Tensor, value: Array, where: str = "") -> Array:
    """The value in the tensor's own number format."""
    scale = None if tensor.quant is None else tensor.scale
    try:
        return tensors.as_elements(tensor.name, value, np.dtype(tensor.dtype), scale, tensor.zero_point)
    except InputError as error:
        error.where = where
        raise


def by_name(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Array]:
    """Exactly the inputs of these names."""
    if not isinstance(given, Mapping):
        raise InputError("inputs are given by name", remedy=f"give a dictionary with {', '.join(map(repr, names))}")
    missing, unknown = [n for n in names if n not in given], [n for n in given if n not in names]
    if not missing and not unknown:
        return {name: np.asarray(given[name]) for name in names}
    sentences = [f"the network has no input {name!r}{_suggestion(name, names)}" for name in unknown]
    sentences += [f"no value for input {name!r}" for name in missing]
    remedy = f"the inputs are {', '.join(map(repr, names))}"
    raise InputError("; ".join(sentences), rule="every input has exactly one value", remedy=remedy)


def _suggestion(name: object, names: Sequence[str]) -> str:
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def compiled_inputs(compiled: Compiled, given: Mapping[str, Any]) -> dict[str, Array]:
    """For a program of ours, in the formats and the order that it was compiled for."""
    graph = compiled.graph
    found = {}
    for name, value in by_name(graph.inputs, _without_pictures(graph, given)).items():
        tensor = graph.tensors[name]
        tensors.require_shape(name, value.shape, tensor.shape)
        found[name] = as_input(tensor, value).reshape(tensor.shape)
    return found


def given_by_name(names: Sequence[str], value: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """A dictionary, keyword arguments, or the one value of the one input."""
    if value is None or isinstance(value, Mapping):
        return {**(value or {}), **named}
    if len(names) != 1 or named:
        raise InputError(
            f"the network has {len(names)} inputs", remedy=f"give a dictionary with {', '.join(map(repr, names))}"
        )
    return {names[0]: value}


def _without_pictures(graph: Graph, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Files and Pillow images become codes: codes by `pixel_codes`, floats the whole range."""
    if not isinstance(given, Mapping):
        return given
    known = set(graph.inputs)
    return {name: pixels(graph, name, v) if name in known and is_picture(v) else v for name, v in given.items()}


def is_picture(value: Any) -> bool:
    return isinstance(value, str | PathLike) or (hasattr(value, "convert") and hasattr(value, "resize"))


def pixels(graph: Graph, name: str, value: Any) -> Array:
    """A picture, or the path of one, as values of an input."""
    from atonc.compiler.compare.inputs import float_range
    from atonc.compiler.inputs.images import fitted, pixel_codes, read_image

    tensor = graph.tensors[name]
    shape = tensor.shape
    found = read_image(Path(value), shape) if isinstance(value, str | PathLike) else fitted(value, shape, name)
    if tensor.is_float:
        low, high = float_range(graph, name)
        return (low + found / np.float32(255) * (high - low)).astype(tensor.dtype)
    return pixel_codes(found, tensor.dtype)


def network_inputs(network: EmulatedNetwork, given: Mapping[str, Any]) -> dict[str, Array]:
    """Takes values for a network from a folder; it converts them itself."""
    return by_name([info.name for info in network.inputs], given)


# ------------------------------------------------------------------------------------- the model's values and ours


def program_inputs(compiled: Compiled, sample: Mapping[str, Array]) -> dict[str, Array]:
    """The model's inputs in the formats that the program asks for (types and channel order may be the user's)."""
    return edge_values(compiled.source, compiled.graph, sample)


def edge_values(source: Graph, graph: Graph, sample: Mapping[str, Array]) -> dict[str, Array]:
    """The same before there is a program."""
    found = {}
    for name in graph.inputs:
        here, there = source.tensors[name], graph.tensors[name]
        value = in_order_of(graph, name, sample[name])
        if here.dtype != there.dtype:
            value = as_input(there, real(here, value)) if there.quant is not None else real(here, value)
        found[name] = value
    return found


def real(tensor: Tensor, codes: Array) -> Array:
    return (codes.astype(np.float64) - tensor.zero_point) * tensor.scale


def in_order_of(graph: Graph, name: str, value: Array) -> Array:
    """The value of an edge of the model in the order that the program has; the shape alone would not tell for cubes."""
    here, there = value.shape, graph.tensors[name].shape
    if name in graph.turned and len(graph.turned[name]) == len(here):
        return value.transpose(graph.turned[name])
    if here == there:
        return value
    rank = len(here)
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        if rank > 2 and tuple(here[axis] for axis in order) == there:
            return value.transpose(order)
    if value.size != graph.tensors[name].elements:
        raise InputError(f"a value of shape {here} for {name!r}, whose shape is {there}")
    return value.reshape(there)
