"""Values as a network takes them: real numbers become codes of the input's format, codes stay as they are, everything
else is refused. Samples come one by one, as batches, or in files that users bring. The command line and `atonc.run`
share this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.compare.inputs import table_rows
from atonc.compiler.inputs.arrays import is_arrays, is_csv, read_arrays
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.machine.base.disk import read_start
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count
from atonc.machine.emu import tensors
from atonc.machine.emu.batches import Shapes as Shapes
from atonc.machine.emu.batches import by_name, frames_of, is_picture, refuse_states
from atonc.machine.emu.batches import given_by_name as given_by_name
from atonc.machine.emu.batches import joined as joined
from atonc.machine.emu.batches import samples_of as samples_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atonc.compiler.compile.pipeline import Compiled


def as_input(tensor: Tensor, value: Array, where: str = "") -> Array:
    """The value in the tensor's own number format."""
    scale = None if tensor.quant is None else tensor.scale
    try:
        return tensors.as_elements(tensor.name, value, np.dtype(tensor.dtype), scale, tensor.zero_point)
    except InputError as error:
        error.where = where
        raise


def compiled_inputs(compiled: Compiled, given: Mapping[str, Any]) -> dict[str, Array]:
    """For a program of ours, in the formats and the order that it was compiled for."""
    graph, found, rows = compiled.graph, {}, table_rows(compiled.source)
    if isinstance(
        given, Mapping
    ):  # files and Pillow images become codes by `pixel_codes`, or floats of the whole range
        known = set(graph.frame_inputs)
        given = {name: pixels(graph, name, v) if name in known and is_picture(v) else v for name, v in given.items()}
    for name, value in by_name(graph.frame_inputs, given, kept_inputs(graph)).items():
        tensor = graph.tensors[name]
        tensors.require_shape(name, value.shape, tensor.shape)
        found[name] = as_input(tensor, value).reshape(tensor.shape)
        tensors.require_rows(name, found[name], rows)
    return found


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


# ------------------------------------------------------------------------------------- the model's values and ours


def program_inputs(compiled: Compiled, sample: Mapping[str, Array]) -> dict[str, Array]:
    """The model's inputs in the formats that the program asks for (types and channel order may be the user's)."""
    return edge_values(compiled.source, compiled.graph, sample)


def frame_inputs(compiled: Compiled, sample: Mapping[str, Array]) -> dict[str, Array]:
    """The same without states, which the program has from the frame before."""
    kept = set(kept_inputs(compiled.graph))
    return {name: value for name, value in program_inputs(compiled, sample).items() if name not in kept}


def kept_inputs(graph: Graph) -> tuple[str, ...]:
    """Inputs of the graph that are states."""
    return tuple(name for name in graph.inputs if name not in graph.frame_inputs)


def first_states(graph: Graph) -> dict[str, Array]:
    """What the kept states of a graph begin with."""
    return {state.input: state.first for state in graph.states if state.kept}


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
    """The value of an edge of the model in the order that the program has; the shape alone would not tell for cubes. Of
    a state those rows that are kept."""
    unread = next((one.unread for one in graph.states if one.input == name and one.unread), ())
    if unread:
        whole = tuple(size + more for size, more in zip(graph.tensors[name].shape, unread, strict=True))
        return _in_order_of(graph, name, value, whole)[tuple(slice(first, None) for first in unread)]
    return _in_order_of(graph, name, value, graph.tensors[name].shape)


def _in_order_of(graph: Graph, name: str, value: Array, there: tuple[int, ...]) -> Array:
    here = value.shape
    if name in graph.turned and len(graph.turned[name]) == len(here):
        return value.transpose(graph.turned[name])
    if here == there:
        return value
    rank = len(here)
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        if rank > 2 and tuple(here[axis] for axis in order) == there:
            return value.transpose(order)
    if value.size != prod(there):
        raise InputError(f"a value of shape {here} for {name!r}, whose shape is {there}")
    return value.reshape(there)


Sample = Mapping[str, Array]


def read_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """Arrays named like the inputs or as ST's validation names them (or as many as there are inputs, in order); a first
    axis beyond the model's own counts samples. Files with one array each are one input each, if the model has several.
    """
    samples: list[Sample] = []
    for arrays, where in _files(files, source):
        named = _named(arrays, source.frame_inputs, "in", where)
        samples += _each({name: _rows(source, name, value, where) for name, value in named.items()})
    return [{**first_states(source), **sample} for sample in (samples[:limit] if limit else samples)]


def read_sequences(source: Graph, files: Sequence[Path], frames: int = 0) -> list[list[Sample]]:
    """Every file is a sequence of frames, or several of `frames` each; states are those of a first frame."""
    found: list[list[Sample]] = []
    shapes = {name: source.tensors[name].shape for name in source.frame_inputs}
    for arrays, where in _files(files, source):
        refuse_states(arrays, kept_inputs(source), where)
        named = _named(arrays, source.frame_inputs, "in", where)
        rows = frames_of(shapes, named, where)
        long = frames or len(rows)
        if len(rows) % long:
            what = f"{count(len(rows), 'frame')} are no sequences of {long} each (--frames)"
            raise InputError(what, where=where, rule="sequences of a file have one length",
                             remedy="leave --frames out: then the file is one sequence")  # fmt: skip
        typed = [{name: _rows(source, name, value, where)[0] for name, value in row.items()} for row in rows]
        whole: list[Sample] = [{**first_states(source), **one} for one in typed]
        found += [whole[at : at + long] for at in range(0, len(whole), long)]
    return found


def read_real_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """The same as real values, also beyond what the inputs' formats can hold; integers are codes."""
    samples: list[Sample] = []
    for arrays, where in _files(files, source):
        rows = {}
        for name, value in _named(arrays, source.frame_inputs, "in", where).items():
            tensor = source.tensors[name]
            if value.dtype.kind != "f":
                rows[name] = [real(tensor, codes) for codes in _rows(source, name, value, where)]
                continue
            if value.size == 0 or value.size % tensor.elements or not np.isfinite(value).all():
                what = f"shape {value.shape} does not hold finite inputs of shape {tensor.shape}"
                raise InputError(what, where=where)
            rows[name] = list(value.astype(np.float64).reshape(-1, *tensor.shape))
        samples += _each(rows)
    first = {name: real(source.tensors[name], codes) for name, codes in first_states(source).items()}
    return [{**first, **sample} for sample in (samples[:limit] if limit else samples)]


def read_outputs(graph: Graph, files: Sequence[Path]) -> list[Mapping[str, Array]]:
    """`-vo`: outputs that the user expects, as real values; codes where the files hold integers."""
    found: list[Mapping[str, Array]] = []
    for arrays, where in _together([(read_arrays(file), str(file)) for file in files], len(graph.frame_outputs)):
        rows = {}
        for name, value in _named(arrays, graph.frame_outputs, "out", where).items():
            tensor = graph.tensors[name]
            if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
                raise InputError(f"shape {value.shape} does not hold outputs of shape {tensor.shape}", where=where)
            values = value.reshape(-1, *tensor.shape)
            rows[name] = real(tensor, values) if value.dtype.kind in "iu" else values.astype(np.float64)
        found += _each(rows)
    return found


def _files(files: Sequence[Path], source: Graph) -> Iterator[tuple[dict[str, Array], str]]:
    """Inputs in files: arrays, or a picture each."""
    read = []
    for number, file in enumerate(files):
        if is_csv(file) or is_arrays(read_start(file)):
            read.append((read_arrays(file), str(file)))
        else:
            names = source.frame_inputs
            read.append(({"": pixels(source, names[number % len(names)], file)}, str(file)))
    return _together(read, len(source.frame_inputs))


def _together(read: Sequence[tuple[dict[str, Array], str]], count: int) -> Iterator[tuple[dict[str, Array], str]]:
    """Each file with its arrays; one array a file belongs together when there is one for every edge."""
    if 1 < count == len(read) and all(len(arrays) == 1 for arrays, _ in read):
        yield {f"{k}": next(iter(arrays.values())) for k, (arrays, _) in enumerate(read)}, ", ".join(w for _, w in read)
    else:
        yield from read


def _named(arrays: Mapping[str, Array], names: Sequence[str], side: str, where: str) -> dict[str, Array]:
    """Matches arrays to edges: by their names, by ST's, or in order."""
    found, only = {}, (f"{side}puts", f"m_{side}puts") if len(names) == 1 else ()
    for k, name in enumerate(names):
        known = (name, f"m_{side}puts_{k + 1}", f"c_{side}puts_{k + 1}", f"{side}_{k}", *only)
        if (key := next((key for key in known if key in arrays), None)) is not None:
            found[name] = arrays[key]
    if len(found) == len(names):
        return found
    if len(arrays) != len(names):
        raise InputError(
            f"holds {len(arrays)} arrays, the model has {side}puts {', '.join(names)}",
            where=where,
            remedy=f"name the arrays after the {side}puts",
        )
    return dict(zip(names, arrays.values(), strict=True))


def read_labels(files: Sequence[Path]) -> list[int]:
    """Arrays called "labels" beside the inputs: the right class of each sample."""
    found: list[int] = []
    for file in files:
        if not is_arrays(read_start(file)):
            continue  # a picture, or .csv, has no second array
        labels = read_arrays(file).get("labels")
        if labels is not None and labels.dtype.kind in "iu" and labels.ndim == 1:
            found += labels.tolist()
    return found


def _each(rows: Mapping[str, Sequence[Array] | Array]) -> list[Sample]:
    """Sample by sample, as many as all edges have."""
    return [{name: value[k] for name, value in rows.items()} for k in range(min(map(len, rows.values())))]


def _rows(source: Graph, name: str, value: Array, where: str) -> list[Array]:
    tensor = source.tensors[name]
    tensors.require_rows(name, value, table_rows(source), where)
    if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
        raise InputError(f"shape {value.shape} does not hold inputs of shape {tensor.shape}", where=where)
    return [as_input(tensor, row, where) for row in value.reshape(-1, *tensor.shape)]
