"""The layer check: every layer on the inputs that it really had, against exact arithmetic.

The graph is run once in exact arithmetic. Wherever a buffer of the emulator run holds the tensor that was just
computed, the two are compared, and the run goes on with the observed values: so each result is computed from the
nearest observed ancestors, through as many operators as lie between, rounded only where the model rounds. Which buffer
holds a tensor: quantisation and size must agree, the values decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import OpResult, is_move, run_op, start_values
from atonc.compiler.ops.conv import accumulate, channel_last
from atonc.compiler.ops.values import Arg, Real
from atonc.machine.base.frozen import dataclass

SCALE_TOLERANCE = 1e-6
SAMPLES = 2048
MAX_GROUPS = 64
MIN_RAW = 8  # fewer codes without a scale prove nothing


@dataclass(frozen=True, eq=False)
class ObservedBuffer:
    """A buffer right after the epoch that wrote it, values in logical channel-last order.

    `scale` None: no quantisation is known. Floats are plain numbers then, 8-bit integers are codes of whatever
    tensor they turn out to be. A one-dimensional `shape_nhwc` is a stream between two units: channels come in groups.
    """

    name: str
    epoch: int
    scale: float | None
    zero_point: int
    shape_nhwc: tuple[int, ...]
    data: Array

    @property
    def is_raw(self) -> bool:
        """8-bit codes without a quantisation of their own."""
        return self.scale is None and self.data.dtype.kind in "iu" and self.data.dtype.itemsize == 1

    @property
    def is_stream(self) -> bool:
        return len(self.shape_nhwc) == 1

    def offset_for(self, tensor: Tensor) -> int:
        """The code of real zero in this buffer."""
        if not self.is_raw:
            return self.zero_point
        signed = tensor.zero_point - (128 if tensor.dtype == "uint8" else 0)
        return signed if self.data.dtype.kind == "i" else signed + 128

    def arrangements(self, tensor: Tensor) -> Iterator[Arrangement]:
        """The stored values in the tensor's shape: every order that fits, the plain one first.

        Compilers add and move axes of length 1 and call some other axis the channels, so only lengths count.
        """
        if self.data.size != tensor.elements:
            return
        if self.is_stream:
            yield from _grouped(self.data, tensor)
            return
        values = self.data.reshape(self.shape_nhwc).squeeze()
        wanted = tuple(dim for dim in tensor.shape if dim != 1)
        for order in permutations(range(values.ndim)):
            if tuple(values.shape[axis] for axis in order) == wanted:
                yield Arrangement(values.transpose(order), tensor.shape)
        if values.ndim != len(wanted):
            yield Arrangement(values.reshape(tensor.shape), tensor.shape)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Stored values as a view in some order of axes; copied to the tensor's shape only when needed."""

    view: Array
    shape: tuple[int, ...]
    group: int = 0  # above 0: the view is [groups, height, width, group]
    channel_axis: int = 3  # of the tensor, for groups

    def sample(self, index: tuple[Array, ...]) -> Array:
        """The values at these indices of the tensor (the index has one array per axis)."""
        if self.group:
            channel = index[self.channel_axis]
            y, x = (i for axis, i in enumerate(index) if axis not in (0, self.channel_axis))
            grouped: Array = self.view[channel // self.group, y, x, channel % self.group]
            return grouped
        kept = tuple(i for i, dim in zip(index, self.shape, strict=True) if dim != 1)
        values: Array = self.view.reshape(self.shape)[index] if len(kept) != self.view.ndim else self.view[kept]
        return values

    def full(self) -> Array:
        order = (1, 2, 0, 3) if self.channel_axis == 3 else (0, 3, 1, 2)
        return (self.view.transpose(order) if self.group else self.view).reshape(self.shape)


def _grouped(stream: Array, tensor: Tensor) -> Iterator[Arrangement]:
    """A stream carries [groups, height, width, channels of a group]; how many groups is not known."""
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        yield Arrangement(stream.reshape(tensor.shape), tensor.shape)
        return
    for channel_axis in (3, 1):  # channels last as in TFLite, or first as in ONNX
        channels = tensor.shape[channel_axis]
        height, width = (dim for axis, dim in enumerate(tensor.shape) if axis not in (0, channel_axis))
        for groups in range(1, min(channels, MAX_GROUPS) + 1):
            if channels % groups == 0:
                view = stream.reshape(groups, height, width, channels // groups)
                yield Arrangement(view, tensor.shape, channels // groups, channel_axis)


def may_hold(buffer: ObservedBuffer, tensor: Tensor) -> bool:
    """Same quantisation (zero points may be 0 or 128 apart: signed against unsigned codes) and as many values."""
    if buffer.data.size != tensor.elements or tensor.is_constant:
        return False
    if tensor.is_float:
        return buffer.scale is None and buffer.data.dtype.kind == "f"
    if tensor.quant is None or not tensor.quant.is_per_tensor:
        return False
    if buffer.scale is None:
        return buffer.is_raw and tensor.dtype in ("int8", "uint8") and tensor.elements >= MIN_RAW
    if abs(buffer.scale - tensor.scale) > SCALE_TOLERANCE * tensor.scale:
        return False
    return (buffer.zero_point - tensor.zero_point) % 128 == 0


def centre(codes: Array, offset: int, tensor: Tensor) -> Array:
    """Codes without their zero point: the units in which values are compared."""
    return codes.astype(np.float64) if tensor.is_float else codes.astype(np.int32) - np.int32(offset)


def to_tensor(values: Array, tensor: Tensor) -> Array:
    """Centred values of a buffer as codes of the tensor."""
    if tensor.is_float:
        return values.astype(np.float64)
    low, high = tensor.code_range
    return np.clip(values + tensor.zero_point, low, high).astype(tensor.dtype)


def sample_index(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Fixed positions spread over a tensor, all of them if it is small."""
    elements = int(np.prod(shape, dtype=np.int64))
    flat = np.arange(elements) if elements <= SAMPLES else np.linspace(0, elements - 1, SAMPLES).astype(np.int64)
    return np.unravel_index(flat, shape) if shape else ()


def mean_distance(values: Array, expected: Array, unit: float) -> float:
    """Mean absolute difference in codes."""
    if not expected.size:
        return 0.0
    with np.errstate(all="ignore"):
        mean = float(np.abs(values - expected).mean()) / unit
    return mean if np.isfinite(mean) else 1e9


CLOSE = 2.0  # mean difference in codes up to which a buffer may be this tensor at all
HOPELESS = 8.0  # no closer look at an arrangement that is so far off
SPARSE = 32
CLOSE_RAW = 0.3  # the same without the scale as a second witness


@dataclass(frozen=True, eq=False)
class Match:
    buffer: ObservedBuffer
    values: Array  # centred, in the tensor's shape
    note: str = ""


@dataclass(frozen=True, eq=False)
class MatchCandidate:
    distance: float  # mean, over a sample
    buffer: ObservedBuffer
    stored: Arrangement

    def match(self, tensor: Tensor, note: str = "") -> Match:
        return Match(self.buffer, centre(self.stored.full(), self.buffer.offset_for(tensor), tensor), note)


class Matcher:
    """The buffers of a run, and which of them have found their tensor."""

    def __init__(self, observed: Sequence[ObservedBuffer]) -> None:
        self.by_size: dict[int, list[ObservedBuffer]] = {}
        for buffer in sorted(observed, key=lambda b: (b.is_stream, b.epoch)):
            self.by_size.setdefault(buffer.data.size, []).append(buffer)
        self.claimed: set[int] = set()

    def find(self, tensor: Tensor, expected: Array, unit: float, earliest: int, reuse: bool) -> Match | None:
        """The closest buffer written at or after epoch `earliest`; claims it and its exact copies.

        `reuse`: a buffer that another tensor has claimed may be this one too (operators that only move values).
        """
        for raw in (False, True):  # codes without a scale are looked at only when no other buffer fits
            candidates = self.candidates(tensor, expected, unit, earliest, raw)
            free = [c for c in candidates if self.free(c.buffer)]
            equal = [c for c in candidates if reuse and c.distance == 0]
            best = self._closest(free, tensor, expected, unit) or self._closest(equal, tensor, expected, unit)
            if best is not None:
                self._claim(best, free, tensor)
                return best
        return None

    def candidates(
        self, tensor: Tensor, expected: Array, unit: float, earliest: int, raw: bool = False
    ) -> list[MatchCandidate]:
        """Every buffer that could hold the tensor, in its closest arrangement; only a sample is compared."""
        index = sample_index(tensor.shape)
        wanted = expected[index]
        found = []
        for buffer in self.by_size.get(tensor.elements, ()):
            if buffer.is_raw == raw and buffer.epoch >= earliest and may_hold(buffer, tensor):
                nearest = self._arranged(buffer, tensor, index, wanted, unit)
                if nearest is not None:
                    found.append(nearest)
        return found

    def claim_copies(self, tensor: Tensor, expected: Array) -> None:
        """Claims the buffers that hold exactly these values."""
        for candidate in self.candidates(tensor, expected, 1.0, -1):
            if candidate.distance == 0 and np.array_equal(candidate.match(tensor).values, expected):
                self.claim(candidate.buffer)

    def free(self, buffer: ObservedBuffer) -> bool:
        return id(buffer) not in self.claimed

    def claim(self, buffer: ObservedBuffer) -> None:
        self.claimed.add(id(buffer))

    @staticmethod
    def _arranged(
        buffer: ObservedBuffer, tensor: Tensor, index: tuple[Array, ...], wanted: Array, unit: float
    ) -> MatchCandidate | None:
        best: MatchCandidate | None = None
        offset = buffer.offset_for(tensor)
        few = tuple(i[::SPARSE] for i in index)  # most arrangements are far off: a few values show it
        for stored in buffer.arrangements(tensor):
            far = mean_distance(centre(stored.sample(few), offset, tensor), wanted[::SPARSE], unit)
            if best is not None and far > HOPELESS:
                continue
            far = mean_distance(centre(stored.sample(index), offset, tensor), wanted, unit)
            if best is None or far < best.distance:
                best = MatchCandidate(far, buffer, stored)
            if far < 0.1:
                break  # no other order of the axes can be meant
        return best

    @staticmethod
    def _closest(candidates: list[MatchCandidate], tensor: Tensor, expected: Array, unit: float) -> Match | None:
        """The sample only selects; all values decide. Equal ones go to the earliest buffer."""
        close = [c for c in candidates if c.distance <= (CLOSE_RAW if c.buffer.is_raw else CLOSE)]
        if not close:
            return None
        nearest = min(c.distance for c in close)
        matches = [c.match(tensor) for c in close if c.distance <= 1.5 * nearest + 0.05]
        if len(matches) == 1:
            return matches[0]
        return min(matches, key=lambda m: (mean_distance(m.values, expected, unit), m.buffer.is_stream, m.buffer.epoch))

    def _claim(self, best: Match, candidates: list[MatchCandidate], tensor: Tensor) -> None:
        self.claim(best.buffer)
        for candidate in candidates:
            close = candidate.distance <= 1.0 and self.free(candidate.buffer)
            if close and np.array_equal(candidate.match(tensor).values, best.values):
                self.claim(candidate.buffer)


WEIGHTED = ("conv", "dense", "transpose_conv")
CONVERSIONS = ("quantize", "dequantize", "requantize", "identity")  # whose output may be the very buffer of the input
MAX_STEPS = 64


def code_size(graph: Graph, tensor: Tensor, values: Array, steps: int = 255) -> float:
    """What one code is worth: 1 for codes, for floats the scale of the quantised tensor that they come from. Where
    floats are computed it is the largest value in so many steps."""
    if not tensor.is_float:
        return 1.0
    return scale_behind(graph, tensor.name) or float(np.abs(values).max(initial=0)) / steps or 1.0


def scale_behind(graph: Graph, name: str) -> float | None:
    """The scale of the codes that floats are, moved at most; None where floats are computed."""
    for _ in range(MAX_STEPS):
        op = graph.producers.get(name)
        if op is None or not (op.kind in ("dequantize", "identity") or is_move(op.kind)):
            break
        name = op.inputs[0]
        if graph.tensors[name].quant is not None:
            return graph.tensors[name].scale
    return None


def steps_behind(graph: Graph, name: str) -> int:
    """How many an output in float is counted in: as many as 16 bits have where all codes that it is computed from have
    them, else those of 8."""
    waiting, seen, kinds = [name], set[str](), set[str]()
    while waiting:
        one = waiting.pop()
        tensor, op = graph.tensors[one], graph.producers.get(one)
        if one in seen or tensor.is_constant:
            continue
        seen.add(one)
        if tensor.quant is not None:
            kinds.add(tensor.dtype)
        elif op is not None:
            waiting += [each for each in op.inputs if each]
    return 65535 if kinds == {"int16"} else 255


def observed_ancestors(graph: Graph, name: str, observed: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators between a tensor and the nearest observed tensors (in order), and those tensors."""
    between: set[str] = set()
    ancestors: dict[str, None] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        op = graph.producers.get(current)
        if op is None or (current != name and current in observed):
            if not graph.tensors[current].is_constant:
                ancestors[current] = None
        elif op.name not in between:
            between.add(op.name)
            pending.extend(i for i in op.inputs if i)
    return tuple(op.name for op in graph.ops if op.name in between), tuple(ancestors)


def computed_ops(graph: Graph, names: tuple[str, ...]) -> int:
    """How many of these operators compute; the others only move values or shapes."""
    computing = [op for op in graph.ops if op.name in names and not is_move(op.kind)]
    outputs = [[graph.tensors[name] for name in op.outputs if name] for op in computing]
    return sum(any(tensor.quant is not None or tensor.is_float for tensor in made) for made in outputs)


def weighted_consumers(graph: Graph, name: str) -> list[tuple[Op, ...]]:
    """Chains (moves, then one convolution or dense layer) that read nothing but this tensor and constants."""
    found = []
    for op in graph.consumers.get(name, []):
        chain = [op]
        while is_move(chain[-1].kind) and len(chain) < 4:
            after = graph.consumers.get(chain[-1].outputs[0], [])
            if len(after) != 1:
                break
            chain.append(after[0])
        live = [sum(not graph.tensors[i].is_constant for i in link.inputs if i) for link in chain]
        if chain[-1].kind in WEIGHTED and set(live) == {1} and all(len(link.outputs) == 1 for link in chain):
            found.append(tuple(chain))
    return found


def parts_of_concats(graph: Graph, matches: Mapping[str, Match]) -> dict[str, Match]:
    """Compilers let layers write straight into the buffer of a concatenation or reshape: find them there."""
    found: dict[str, Match] = {}
    for op in reversed(graph.ops):
        if op.kind not in ("concat", "reshape") or len(op.outputs) != 1:
            continue
        match = matches.get(op.outputs[0]) or found.get(op.outputs[0])
        if match is None:
            continue
        start, target = 0, graph.tensors[op.outputs[0]]
        for name in op.inputs:
            tensor = graph.tensors[name]
            values, start = _cut(op, match.values, tensor, start)
            same = tensor.quant is not None and tensor.quant.same_as(target.quant) and tensor.dtype == target.dtype
            if same and name not in matches and not tensor.is_constant and name not in graph.inputs:
                found.setdefault(name, Match(match.buffer, values, f"inside {match.buffer.name}"))
    return found


def _cut(op: Op, values: Array, tensor: Tensor, start: int) -> tuple[Array, int]:
    if op.kind == "reshape":
        return values.reshape(tensor.shape), 0
    axis = op.attrs["axis"]
    stop = start + tensor.shape[axis]
    window = tuple(slice(start, stop) if i == axis else slice(None) for i in range(values.ndim))
    return values[window], stop


LIMIT = 32767
PART_CHANNELS = 8  # input channels that the smallest usual part of an accumulation has


@dataclass(frozen=True)
class Lowering:
    """What the 16-bit stages see, per output value in channel-last order; above 32767 they saturate."""

    accumulator: Real  # magnitude after the output shift
    one_sided: Real  # positive or negative products alone: an upper bound of partial sums
    intermediate: Real  # magnitude at the power-of-two scale before the bias
    rounding: Real  # the loss in codes that rounding alone can reach
    step_codes: Real  # output codes per accumulator step, per channel
    multiplier: Real  # the integer multiplier, per channel

    @property
    def saturated(self) -> tuple[Array, Array]:
        """Where a stage saturates for certain, and where else a partial sum may."""
        certain = (self.accumulator > LIMIT) | (self.intermediate > LIMIT)
        return certain, ~certain & (self.one_sided > LIMIT)


def lowering(graph: Graph, op: Op, values: Mapping[str, Array]) -> Lowering | None:
    """None for operators that are not lowered to a convolution."""
    if op.kind not in ("conv", "dense"):
        return None
    x, weights = (Arg(graph.tensors[name], values[name]) for name in op.inputs[:2])
    target = graph.tensors[op.outputs[0]]
    if x.tensor.is_float or weights.tensor.is_float or target.quant is None:
        return None

    def run(w: Real, v: Real) -> Real:
        """Sums of products in channel-last order."""
        if op.kind == "dense":
            return v.reshape(-1, w.shape[1]) @ w.T
        return accumulate(channel_last(v, op.attrs["layout"]), w, op.attrs)

    outputs, reach = weights.codes.shape[0], weights.codes.shape[1:]
    scale = np.broadcast_to(x.scales * weights.scales, (outputs,))
    sums = weights.centred.reshape(outputs, -1).sum(axis=1)
    shift = max(0, int(np.abs(sums).max(initial=0)).bit_length() - 7)
    total = np.abs(run(weights.centred, x.centred))
    positive, negative = (
        run(bound(weights.centred, 0), np.maximum(x.centred, 0)) for bound in (np.maximum, np.minimum)
    )
    multiplier = np.rint(scale * 2.0 ** (14 - np.floor(np.log2(scale.max()))))
    step = scale * 2.0**shift / target.scale
    parts = -(-reach[-1] // PART_CHANNELS) * int(np.prod([-(-size // 3) for size in reach[:-1]]))
    return Lowering(
        accumulator=total / 2**shift,
        one_sided=np.maximum(positive, -negative) / 2**shift,
        intermediate=total * scale / 2.0 ** np.ceil(np.log2(target.scale) - 6),
        rounding=0.5 * parts * step + total * scale / target.scale * 0.5 / np.maximum(multiplier, 1) + 0.1,
        step_codes=step,
        multiplier=multiplier,
    )


def explain(graph: Graph, op: Op, values: Mapping[str, Array], difference: Array) -> str:
    """One sentence on the values that differ by more than 1; empty if there is nothing to say."""
    found = lowering(graph, op, values)
    if found is None:
        return ""
    conv = op.kind == "conv"
    error = np.abs(
        channel_last(difference, op.attrs["layout"]) if conv else difference.reshape(-1, difference.shape[-1])
    )
    bad = error > 1
    saturated, partial = found.saturated
    rounded = ~saturated & ~partial & (error <= 1 + found.rounding)
    cases = {
        "saturate a 16-bit stage": saturated,
        "may saturate in a partial sum": partial,
        _loss(found, bad & rounded): rounded,
        "unexplained": ~(saturated | partial | rounded),
    }
    counts = {what: int((bad & mask).sum()) for what, mask in cases.items()}
    return "; ".join(f"{number} of {int(bad.sum())} {what}" for what, number in counts.items() if number)


def saturation(graph: Graph, op: Op, values: Mapping[str, Array]) -> str:
    """How many values of a layer leave 16 bits, in the end or perhaps on the way; empty if none does."""
    found = lowering(graph, op, values)
    if found is None:
        return ""
    saturated, partial = found.saturated
    counts = {"saturate a 16-bit stage": int(saturated.sum()), "may saturate in a partial sum": int(partial.sum())}
    said = [f"{number} of {saturated.size} values of {op.name} {what}" for what, number in counts.items() if number]
    return ", ".join(said)


def _loss(found: Lowering, mask: Array) -> str:
    channels = np.unique(np.nonzero(mask)[-1])
    if not channels.size:
        return "rounded"
    coarsest, smallest = found.step_codes[channels].max(), found.multiplier[channels].min()
    return f"rounded in the lowering (accumulator steps up to {coarsest:.2f} codes, multipliers from {smallest:.0f})"


MAX_TRIALS = 6  # buffers that are tried in place of a tensor that no buffer resembles


@dataclass(frozen=True)
class LayerResult:
    """One observed tensor against exact arithmetic. Differences count codes, observed minus exact."""

    tensor: str
    kind: str
    ops: tuple[str, ...]  # evaluated from the observed inputs, the producer last
    computing_ops: int  # those of them that do more than move values
    inputs: tuple[str, ...]  # the observed tensors (and graph inputs) that they read
    buffer: str
    epoch: int
    elements: int
    max_diff: float
    differ_percent: float
    over_one_percent: float
    mean_diff: float
    max_real_error: float  # largest distance of a code from the real number before rounding
    note: str = ""
    cause: str = ""  # why more than one code apart, where it is known


@dataclass(frozen=True)
class Unmatched:
    """A tensor that no buffer holds."""

    tensor: str
    kind: str
    reason: str


@dataclass(frozen=True)
class LayerReport:
    results: tuple[LayerResult, ...]
    unmatched: tuple[Unmatched, ...]
    unused_buffers: tuple[str, ...]  # have the quantisation of some tensor, but resemble none

    def exceptions(self, allowed: float = 1.0) -> tuple[LayerResult, ...]:
        """Layers that are further than `allowed` codes from exact arithmetic."""
        return tuple(result for result in self.results if result.max_diff > allowed)

    @property
    def max_diff(self) -> float:
        return max((result.max_diff for result in self.results), default=0.0)

    @property
    def differ_percent(self) -> float:
        """Over all values of all layers."""
        total = sum(result.elements for result in self.results)
        return sum(result.differ_percent * result.elements for result in self.results) / total if total else 0.0


def check_layers(graph: Graph, inputs: Mapping[str, Array], observed: Sequence[ObservedBuffer]) -> LayerReport:
    """Compares an emulator run with the model. `inputs` are the model's inputs by name."""
    walk = _GraphWalk(graph, inputs, observed, {})
    walk.run()
    known = parts_of_concats(graph, walk.matches) | walk.left_over()
    if known:  # once more, with tensors inside concatenations and those that only one buffer can be
        walk = _GraphWalk(graph, inputs, observed, known)
        walk.run()
    return walk.report()


class _GraphWalk:
    """One exact run through the graph that takes over every observed tensor."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], observed: Sequence[ObservedBuffer], known: dict[str, Match]
    ) -> None:
        self.graph, self.observed, self.known = graph, observed, known
        self.matcher = Matcher(observed)
        self.values = start_values(graph, inputs)
        self.epochs: dict[str, int] = {}  # the latest epoch that a value depends on
        self.matches: dict[str, Match] = {}
        self.results: list[LayerResult] = []
        self.unmatched: list[Unmatched] = []

    def run(self) -> None:
        for name in self.graph.inputs:  # copies of the input in memory
            tensor = self.graph.tensors[name]
            self.matcher.claim_copies(tensor, centre(self.values[name], tensor.zero_point, tensor))
        for op in self.graph.ops:
            earliest = max((self.epochs.get(name, -1) for name in op.inputs), default=-1)
            for name, result in zip(op.outputs, run_op(self.graph, op, self.values), strict=True):
                self._take(op, self.graph.tensors[name], result, earliest)

    def report(self) -> LayerReport:
        tensors = [t for t in self.graph.tensors.values() if not t.is_constant]
        unused = (
            buffer.name
            for buffer in self.observed
            if self.matcher.free(buffer) and not buffer.is_raw and any(may_hold(buffer, t) for t in tensors)
        )
        return LayerReport(tuple(self.results), tuple(self.unmatched), tuple(unused))

    def left_over(self) -> dict[str, Match]:
        """Tensors for which exactly one unclaimed buffer is left, and no other tensor for that buffer.

        If what follows was found from the computed value, that value was right and the buffer is something else.
        """
        tensors = [self.graph.tensors[row.tensor] for row in self.unmatched if not self._has_seen_readers(row.tensor)]
        free = [b for b in self.observed if self.matcher.free(b) and not b.is_raw]
        holders = {t.name: [b for b in free if may_hold(b, t) and b.epoch >= self.epochs[t.name]] for t in tensors}
        takers = Counter(id(buffer) for found in holders.values() for buffer in found)
        result = {}
        for tensor in tensors:
            if len(found := holders[tensor.name]) == 1 and takers[id(found[0])] == 1:
                stored = next(found[0].arrangements(tensor), None)
                if stored is not None:
                    values = centre(stored.full(), found[0].offset_for(tensor), tensor)
                    result[tensor.name] = Match(found[0], values, "the only buffer left")
        return result

    def _has_seen_readers(self, name: str) -> bool:
        return any(output in self.matches for op in self.graph.consumers.get(name, []) for output in op.outputs)

    def _take(self, op: Op, tensor: Tensor, result: OpResult, earliest: int) -> None:
        """Finds the tensor among the buffers, records the difference, goes on with the observed value."""
        self.values[tensor.name] = result.codes
        self.epochs[tensor.name] = earliest
        if tensor.quant is None and not tensor.is_float:
            return  # shape arithmetic
        match = self._find(tensor, result, earliest, op.kind in CONVERSIONS or is_move(op.kind)) or self.known.get(
            tensor.name
        )
        match = match or self._by_its_consumers(tensor, result, earliest)
        if match is None:
            self.unmatched.append(Unmatched(tensor.name, op.kind, self._reason(tensor, result, earliest)))
            return
        self.matches[tensor.name] = match
        self.matcher.claim(match.buffer)
        self.epochs[tensor.name] = max(earliest, match.buffer.epoch)
        self.results.append(self._compare(op, tensor, result, match))
        self.values[tensor.name] = to_tensor(match.values, tensor)

    def _find(self, tensor: Tensor, result: OpResult, earliest: int, reuse: bool) -> Match | None:
        expected, unit = centre(result.codes, tensor.zero_point, tensor), code_size(self.graph, tensor, result.codes)
        return self.matcher.find(tensor, expected, unit, earliest, reuse)

    def _by_its_consumers(self, tensor: Tensor, result: OpResult, earliest: int) -> Match | None:
        """A layer that went wrong resembles no buffer. But if a convolution of some buffer is found in memory, that
        buffer is what the convolution read, whatever it contains."""
        consumers = weighted_consumers(self.graph, tensor.name)
        if not consumers:
            return None
        expected, unit = centre(result.codes, tensor.zero_point, tensor), code_size(self.graph, tensor, result.codes)
        candidates = self.matcher.candidates(tensor, expected, unit, earliest)
        free = [c for c in candidates if self.matcher.free(c.buffer)]
        for candidate in sorted(free, key=lambda c: c.buffer.epoch)[:MAX_TRIALS]:
            match = candidate.match(tensor, "found by what its consumer computed")
            if any(self._explains(chain, tensor, match) for chain in consumers):
                self.matcher.claim(match.buffer)
                return match
        return None

    def _explains(self, chain: tuple[Op, ...], tensor: Tensor, match: Match) -> bool:
        values = {**self.values, tensor.name: to_tensor(match.values, tensor)}
        for op in chain:
            results = run_op(self.graph, op, values)
            values[op.outputs[0]] = results[0].codes
        target = self.graph.tensors[chain[-1].outputs[0]]
        expected = centre(results[0].codes, target.zero_point, target)
        unit = code_size(self.graph, target, results[0].codes)
        found = self.matcher.candidates(target, expected, unit, match.buffer.epoch)
        return any(c.distance < CLOSE / 4 and self.matcher.free(c.buffer) for c in found)

    def _reason(self, tensor: Tensor, result: OpResult, earliest: int) -> str:
        expected, unit = centre(result.codes, tensor.zero_point, tensor), code_size(self.graph, tensor, result.codes)
        found = self.matcher.candidates(tensor, expected, unit, earliest)
        if not found:
            return "no later buffer has its scale, zero point and size: fused into another layer"
        near = min(found, key=lambda c: c.distance)
        state = "free" if self.matcher.free(near.buffer) else "another tensor's"
        return f"not seen: the nearest buffer {near.buffer.name} ({state}) is {near.distance:.1f} LSB away on average"

    def _compare(self, op: Op, tensor: Tensor, result: OpResult, match: Match) -> LayerResult:
        unit = code_size(self.graph, tensor, result.codes)
        difference = (match.values - centre(result.codes, tensor.zero_point, tensor)).astype(np.float64) / unit
        size = np.abs(difference)
        ops, ancestors = observed_ancestors(self.graph, tensor.name, set(self.matches))
        return LayerResult(
            tensor=tensor.name,
            kind=op.kind,
            ops=ops,
            computing_ops=computed_ops(self.graph, ops),
            inputs=ancestors,
            buffer=match.buffer.name,
            epoch=match.buffer.epoch,
            elements=tensor.elements,
            max_diff=float(size.max(initial=0)),
            differ_percent=percent(size > (1e-3 if tensor.is_float else 0)),
            over_one_percent=percent(size > 1.001),
            mean_diff=float(difference.mean()) if difference.size else 0.0,
            max_real_error=_real_error(match.values, result, tensor, unit),
            note=match.note,
            cause=self._cause(op, ops, difference) if np.any(size > 1.001) else "",
        )

    def _cause(self, op: Op, ops: tuple[str, ...], difference: Array) -> str:
        """Explains the difference by the layer itself, or by layers before it that were not observed."""
        if own := explain(self.graph, op, self.values, difference):
            return own
        before = [o for o in self.graph.ops if o.name in ops and o is not op]
        return "; ".join(found for o in before if (found := saturation(self.graph, o, self.values)))


def percent(mask: Array) -> float:
    return 100.0 * float(mask.mean()) if mask.size else 0.0


def _real_error(values: Array, result: OpResult, tensor: Tensor, unit: float) -> float:
    exact: Real = result.exact
    if tensor.quant is not None:
        low, high = tensor.code_range
        exact = np.clip(exact, low, high) - tensor.zero_point
    return float((np.abs(values - exact) / unit).max(initial=0))
