"""What is known of the graph before any operator is lowered; the same for all recipes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.lower.conv.chains import LOWEST, subtractable
from atonc.compiler.lower.conv.passes_2x import PassShape, needs_unsigned
from atonc.compiler.lower.sizes import free_bytes
from atonc.compiler.ops import is_move
from atonc.compiler.ops.values import same_codes
from atonc.compiler.plan import policy
from atonc.compiler.plan.policy import LEAST_PICTURE, MANY_CHANNELS, MOST_CODES, WINDOW_CHANNELS, NpuRamBudget
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.safety.evidence.trust import ANYTHING
from atonc.machine.hw.target import Target

if TYPE_CHECKING:
    from atonc.compiler.lower.alike import AlikeForms

CONVOLUTIONS = ("conv", "dense", "transpose_conv")
COPIES = ("concat", "resize_nearest")  # of codes, if all formats are one
EDGES = ("quantize", "uint8_to_int8", "requantize", "identity")  # change the format of an input only


@dataclass(frozen=True)
class Facts:
    graph: Graph
    target: Target  # what forms are priced for
    room: NpuRamBudget  # the NPU's own RAM
    numerics: str = "best"  # or "2.x": the lowering of ST's releases 2.x, number for number
    calibrate: Callable[[], list[Mapping[str, Array]]] | None = None  # runs of the graph on typical inputs
    on_cpu: frozenset[str] = frozenset()  # operators that the user wants there
    user_allocated: frozenset[str] = frozenset()  # inputs and outputs whose memory the application brings
    without: frozenset[str] = frozenset()  # passes of the schedule that the user leaves out
    asked: frozenset[str] = frozenset()  # what no published program proves and the user wants all the same
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # kernels -> bytes where another epoch begins
    forms: Mapping[str, str] = field(default_factory=dict)  # operator -> label of the form that it shall take
    coarse: float = MOST_CODES  # codes of 8 bits that an operator may be from exact arithmetic
    disproved: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # operator -> errors that forms declared
    near: frozenset[str] = frozenset()  # operators whose weights are read from RAM: forms are chosen for that
    ram_scarce: bool = False  # not all weights have room there
    alike: AlikeForms | None = None  # layers that look alike have one form: for assumed weights only

    @property
    def enough(self) -> float:
        """How many times what any other row takes at least a row may cost, and no other is built."""
        return 1.0 if self.alike is None else policy.NEAR_ENOUGH

    def tensor(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    @cached_property
    def shifted(self) -> frozenset[str]:
        """Tensors that are stored as code + 128: their zero is -128, so that they become features without an offset.

        Worth it where a convolution reads them that has a window or many channels, and possible where convolutions
        write and read them and nobody else does. Inputs of type uint8 are stored so by whoever writes them.
        """
        worth = self._summed_in_large_parts if self.numerics == "2.x" else self._worth_shifting
        return frozenset(name for name in self.graph.tensors if worth(name))

    def _worth_shifting(self, name: str) -> bool:
        group = self._copied.get(name, (name,))
        readers = [op for one in group for op in self.graph.consumers.get(one, []) if op.kind in CONVOLUTIONS]
        if any(self._wants_signs(op) for op in readers):
            return False
        if all(self._between_convolutions(one, group) for one in group):
            return any(self._gains(op) for op in readers)
        return self._is_picture(name)

    @cached_property
    def _copied(self) -> Mapping[str, tuple[str, ...]]:
        """By tensor: all that are made of each other by copies of codes, as those that are joined and their join."""
        found: dict[str, tuple[str, ...]] = {}
        for op in self.graph.ops:
            if self._copies(op):
                one = tuple(dict.fromkeys(n for name in (*op.inputs, *op.outputs) for n in found.get(name, (name,))))
                found |= dict.fromkeys(one, one)
        return found

    def _copies(self, op: Op) -> bool:
        if op.kind not in COPIES or op.name in self.on_cpu or {"clip", "in_place", "frame"} & op.attrs.keys():
            return False
        first, *others = [self.tensor(name) for name in (*op.outputs, *op.inputs)]
        return all(one.dtype == "int8" and not one.is_constant and same_codes(one, first) for one in (first, *others))

    def _is_picture(self, name: str) -> bool:
        """An input of type uint8 as int8: its bytes are code + 128 already, and convolutions read them as they come, or
        copy them with their zero point around them."""
        producer = self.graph.producers.get(name)
        if producer is None or producer.kind != "uint8_to_int8":
            return False
        bordered, readers = self.tensor(name).zero_point != -128, self.graph.consumers.get(name, ())
        left_out = "borders" in self.without or self.tensor(name).elements < LEAST_PICTURE
        if bordered and (left_out or not all(map(self._may_border, readers))):
            return False
        return self._read_by_convolutions(name, producer, any_zero=bordered)

    def _may_border(self, op: Op) -> bool:
        """A window of 3x3 over few channels, with padding: single units take it, whatever their stride. Weights with a
        zero point would need a second unit, and pass their sums through memory instead."""
        weights = self.tensor(op.inputs[1])
        if op.kind != "conv" or not any(op.attrs.get("padding", ())) or weights.quant is None:
            return False
        if weights.quant.zero_points.any():
            return False
        shape, stride = weights.shape, tuple(op.attrs.get("stride", (1, 1)))
        plain = int(op.attrs.get("groups", 1)) == 1 and tuple(op.attrs.get("dilation", (1, 1))) == (1, 1)
        return plain and tuple(shape[1:3]) == (3, 3) and shape[-1] <= WINDOW_CHANNELS and stride in ((1, 1), (2, 2))

    def _between_convolutions(self, name: str, group: Collection[str] = ()) -> bool:
        """Written and read by convolutions only, as codes whose zero is -128; and by copies inside a group."""
        producer, copied = self.graph.producers.get(name), {*group} - {name}
        if producer is None or not (producer.kind in CONVOLUTIONS or copied & {*producer.inputs}):
            return False
        return self._read_by_convolutions(name, producer, copied=copied)

    def _read_by_convolutions(
        self, name: str, producer: Op, any_zero: bool = False, copied: Collection[str] = ()
    ) -> bool:
        tensor, readers = self.tensor(name), self.graph.consumers.get(name, [])
        if name in self.graph.outputs:
            return False
        if tensor.dtype != "int8" or not (any_zero or tensor.zero_point == -128) or not readers:
            return False
        apart = (op for op in readers if not (op.kind in COPIES and op.outputs[0] in copied))
        if any(op.kind not in CONVOLUTIONS or op.inputs[0] != name for op in apart):
            return False
        return not any(op.name in self.on_cpu for op in (producer, *readers))

    def _summed_in_large_parts(self, name: str) -> bool:
        """All readers sum more channels at once than signed features allow, as ST's releases 2.x do."""
        return self._between_convolutions(name) and all(map(self._in_large_parts, self.graph.consumers[name]))

    def _in_large_parts(self, op: Op) -> bool:
        weights, y = self.tensor(op.inputs[1]), self.tensor(op.outputs[0])
        outputs, *window, channels = weights.shape
        plain = op.kind in ("conv", "dense") and int(op.attrs.get("groups", 1)) == 1 and set(window) <= {1}
        form = PassShape(channels, outputs, y.elements // max(outputs, 1), 1, wide=False)
        return plain and needs_unsigned(form)

    def _wants_signs(self, op: Op) -> bool:
        """Chains of windows with stride 2 or without padding were seen with signed features only."""
        weights = self.tensor(op.inputs[1])
        dense = int(op.attrs.get("groups", 1)) == 1 and len(weights.shape) == 4 and max(weights.shape[1:3]) > 1
        seen = tuple(op.attrs.get("stride", (1, 1))) == (1, 1) and any(op.attrs.get("padding", ()))
        return dense and weights.shape[-1] > 8 and not seen

    def _gains(self, op: Op) -> bool:
        weights = self.tensor(op.inputs[1])
        channels = weights.shape[-1]
        window = weights.shape[1:3] if len(weights.shape) == 4 else (1, 1)
        if max(window) > 1 and not subtractable(LOWEST, self.target.trust):
            return True
        return channels > (1 if max(window) > 1 else MANY_CHANNELS)

    @cached_property
    def states(self) -> frozenset[str]:
        """Inputs and outputs that the program itself carries from run to run."""
        return frozenset(name for one in self.graph.states if one.kept for name in (one.input, one.output))

    @cached_property
    def any_error(self) -> Facts:
        """The same without a bound of the error."""
        return replace(self, coarse=inf)

    @cached_property
    def any_evidence(self) -> Facts:
        """The same with forms that nobody has shown."""
        return replace(self, target=replace(self.target, trust=ANYTHING))

    def of(self, op: str) -> Facts:
        """What forms of an operator are made of."""
        return self._with_near_weights if op in self.near else self

    def near_otherwise(self, other: Facts) -> frozenset[str]:
        """Operators for which these facts and others of the same graph expect other weights in RAM."""
        return self.near | other.near if self.ram_scarce != other.ram_scarce else self.near ^ other.near

    @cached_property
    def _with_near_weights(self) -> Facts:
        return replace(self, target=replace(self.target, weights_near=True, ram_scarce=self.ram_scarce))

    @cached_property
    def free_bytes(self) -> Mapping[str, int]:
        """By operator: what may live beside it without the peak of all activations growing too much."""
        found = free_bytes(self.graph, self.room.spent_bytes)
        return found if self.alike is None else {op: 1 << size.bit_length() >> 1 for op, size in found.items()}

    def typical_codes(self, name: str) -> list[Array]:
        """Codes of a tensor for typical inputs; of one that the application writes also all codes at either end, since
        nothing keeps pictures from being white or black."""
        found = [np.asarray(run[name]) for run in self.typical]
        if found and self.written_outside(name):
            low, high = self.tensor(name).code_range
            found += [np.full_like(found[0], end) for end in (low, high)]
        return found

    def written_outside(self, name: str) -> bool:
        while name not in self.graph.inputs:
            producer = self.graph.producers.get(name)
            if producer is None or not (is_move(producer.kind) or producer.kind in EDGES):
                return False
            name = producer.inputs[0]
        return True

    @cached_property
    def typical(self) -> list[Mapping[str, Array]]:
        """Values of all tensors for a few typical inputs; empty when nobody provides them."""
        return [] if self.calibrate is None else self.calibrate()
