"""Values as a network takes them: real numbers become codes of the input's format, codes stay as they are, everything
else is refused. Samples come one by one, as batches, or in files that users bring. The command line and `atonc.run`
share this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.inputs.arrays import is_arrays, is_csv, read_arrays
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.machine.base.disk import read_start
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count, listed
from atonc.machine.emu import tensors
from atonc.machine.emu.tensors import squeezed

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


Shapes = Mapping[str, tuple[int, ...]]


def samples_of(shapes: Shapes, given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The samples of a batch; None where the values are one sample, or do not fit: whoever takes them says so."""
    counts = {name: _samples(shapes[name], value) for name, value in given.items() if name in shapes}
    if not any(counts.values()):
        return None
    if len(set(counts.values())) > 1:
        found = [f"{name!r} {count(number, 'sample') if number else 'one alone'}" for name, number in counts.items()]
        raise InputError(f"inputs of unlike batches: {listed(found)}", rule="all inputs have as many samples")
    number = next(iter(counts.values()))
    return [{name: value[k] for name, value in given.items()} for k in range(number)]


def _samples(shape: tuple[int, ...], value: Any) -> int:
    """How many samples a value holds along a first axis of its own; 0: it is one."""
    if is_picture(value):
        return 0
    if isinstance(value, list | tuple) and value and all(map(is_picture, value)):
        return len(value)
    try:
        found = np.shape(value)
    except ValueError:
        raise InputError("the values are lists of unlike lengths", remedy="give an array") from None
    alone = squeezed(found) == squeezed(shape)
    return found[0] if found and not alone and squeezed(found[1:]) == squeezed(shape) else 0


def joined(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Outputs of all samples: along the model's own first axis where that counts one, else along a new one."""
    found = {}
    for name, first in runs[0].items():
        values = [run[name] for run in runs]
        found[name] = np.concatenate(values) if first.shape[:1] == (1,) else np.stack(values)
    return found


Sample = Mapping[str, Array]


def read_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """Arrays named like the inputs or as ST's validation names them (or as many as there are inputs, in order); a first
    axis beyond the model's own counts samples. Files with one array each are one input each, if the model has several.
    """
    samples: list[Sample] = []
    for arrays, where in _files(files, source):
        named = _named(arrays, source.inputs, "in", where)
        samples += _split(source, named, where)
    return samples[:limit] if limit else samples


def read_real_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """The same as real values, also beyond what the inputs' formats can hold; integers are codes."""
    samples: list[Sample] = []
    for arrays, where in _files(files, source):
        rows = {}
        for name, value in _named(arrays, source.inputs, "in", where).items():
            tensor = source.tensors[name]
            if value.dtype.kind != "f":
                rows[name] = [real(tensor, codes) for codes in _rows(tensor, value, where)]
                continue
            if value.size == 0 or value.size % tensor.elements or not np.isfinite(value).all():
                what = f"shape {value.shape} does not hold finite inputs of shape {tensor.shape}"
                raise InputError(what, where=where)
            rows[name] = list(value.astype(np.float64).reshape(-1, *tensor.shape))
        count = min(len(value) for value in rows.values())
        samples += [{name: value[k] for name, value in rows.items()} for k in range(count)]
    return samples[:limit] if limit else samples


def read_outputs(graph: Graph, files: Sequence[Path]) -> list[Mapping[str, Array]]:
    """`-vo`: outputs that the user expects, as real values; codes where the files hold integers."""
    found: list[Mapping[str, Array]] = []
    for arrays, where in _together([(read_arrays(file), str(file)) for file in files], len(graph.outputs)):
        rows = {}
        for name, value in _named(arrays, graph.outputs, "out", where).items():
            tensor = graph.tensors[name]
            if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
                raise InputError(f"shape {value.shape} does not hold outputs of shape {tensor.shape}", where=where)
            values = value.reshape(-1, *tensor.shape)
            rows[name] = real(tensor, values) if value.dtype.kind in "iu" else values.astype(np.float64)
        count = min(len(value) for value in rows.values())
        found += [{name: value[k] for name, value in rows.items()} for k in range(count)]
    return found


def _files(files: Sequence[Path], source: Graph) -> Iterator[tuple[dict[str, Array], str]]:
    """Inputs in files: arrays, or a picture each."""
    read = []
    for number, file in enumerate(files):
        if is_csv(file) or is_arrays(read_start(file)):
            read.append((read_arrays(file), str(file)))
        else:
            read.append(({"": pixels(source, source.inputs[number % len(source.inputs)], file)}, str(file)))
    return _together(read, len(source.inputs))


def _together(read: Sequence[tuple[dict[str, Array], str]], count: int) -> Iterator[tuple[dict[str, Array], str]]:
    """Each file with its arrays; one array a file belongs together when there is one for every edge."""
    if 1 < count == len(read) and all(len(arrays) == 1 for arrays, _ in read):
        yield {f"{k}": next(iter(arrays.values())) for k, (arrays, _) in enumerate(read)}, ", ".join(w for _, w in read)
    else:
        yield from read


def _named(arrays: Mapping[str, Array], names: Sequence[str], side: str, where: str) -> dict[str, Array]:
    """Matches arrays to edges: by their names, by ST's, or in order."""
    found = {}
    for k, name in enumerate(names):
        known = (name, f"m_{side}puts_{k + 1}", f"c_{side}puts_{k + 1}", f"{side}_{k}", *_only(side, names))
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


def _only(side: str, names: Sequence[str]) -> tuple[str, ...]:
    return (f"{side}puts", f"m_{side}puts") if len(names) == 1 else ()


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


def _split(source: Graph, named: Mapping[str, Array], where: str) -> Iterator[Sample]:
    rows = {name: _rows(source.tensors[name], value, where) for name, value in named.items()}
    count = min(len(value) for value in rows.values())
    for k in range(count):
        yield {name: value[k] for name, value in rows.items()}


def _rows(tensor: Tensor, value: Array, where: str) -> list[Array]:
    if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
        raise InputError(f"shape {value.shape} does not hold inputs of shape {tensor.shape}", where=where)
    return [as_input(tensor, row, where) for row in value.reshape(-1, *tensor.shape)]
