"""What a layer asks of units, bus and external memory: from the operator, and from where its weights lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, prod

from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.ir import Op, Tensor
from atonc.compiler.ops.conv import pair
from atonc.compiler.ops.shapes import macs
from atonc.compiler.plan.types import FILLED, EpochPlan
from atonc.insight.explain.limits import BYTES, LayerWork
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import LEAST_DEEP, PRODUCTS, convacc_sizes
from atonc.machine.hw.target import Target

DEEP_BYTES = 3  # channels of a word in deep mode
WINDOW = 3  # rows and columns of a kernel that a unit takes at once
DSS2_BYTES = 2
CUTS = ((3, 3), (4, 2))  # units and lanes: a lane has an engine each for features, kernels and results, of ten


def layer_work(
    op: Op, tensors: Mapping[str, Tensor], steps: Iterable[ProgramStep], program: Program, target: Target
) -> LayerWork | None:
    """None for what no epoch of its own computes."""
    own = [step for step in steps if step.epoch is not None and isinstance(step.plan, EpochPlan)]
    if not own:
        return None
    read = {buffer for step in own for buffer in _read(step)}
    held, outside = 0, dict[str, int]()
    for name in sorted(read & program.placed.keys()):
        home = program.placed[name]
        if home.buffer.kind not in FILLED:
            continue
        held += home.buffer.size_bytes
        bank = target.machine.memory_at(home.address)
        if bank is not None and bank.external:
            outside[bank.kind] = outside.get(bank.kind, 0) + home.buffer.size_bytes
    return LayerWork(
        macs=macs(op, tensors),
        lane_cycles=_lane_cycles(op, tensors),
        read_bytes=_feature_bytes(op, tensors) + held,
        written_bytes=sum(tensors[name].elements for name in op.outputs),
        program_words=_least_words([step.epoch for step in own if step.epoch is not None], target),
        outside_bytes=outside,
    )


def _least_words(epochs: Iterable[Epoch], target: Target) -> int:
    convolving = (epoch for epoch in epochs if epoch.of_kind("CONVACC"))
    return min((target.with_words(epoch).words for epoch in convolving), default=0)


def _feature_bytes(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Counts what convolutions read; others may leave out some of their inputs. A pointwise one reads what it keeps."""
    if op.kind not in ("conv", "dense"):
        return 0
    source, count, rows, columns, _ = tensors[op.inputs[0]], *_kernel_shape(tensors[op.inputs[1]].shape)
    kept = tensors[op.outputs[0]].elements // count * source.shape[-1]
    return min(source.elements, kept) if rows == columns == 1 else source.elements


def _read(step: ProgramStep) -> Iterable[str]:
    """Buffers that the units of the layer read; others may share the epoch."""
    assert step.epoch is not None and isinstance(step.plan, EpochPlan)
    engines = step.plan.engines.items()
    return (use.buffer for name, use in engines if name in step.epoch.units and not use.config.to_memory)


def _lane_cycles(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """The best cut: units share what one would take alone, lanes share the results."""
    alone, results = _unit_cycles(op, tensors), tensors[op.outputs[0]].elements
    return ceil(min(max(alone / units, results / lanes) for units, lanes in CUTS)) if macs(op, tensors) else 0


def _unit_cycles(op: Op, tensors: Mapping[str, Tensor]) -> float:
    """What one unit would take alone for products, for words of features and for words of kernels."""
    products = macs(op, tensors) / PRODUCTS[BYTES]
    if op.kind not in ("conv", "dense"):
        return products
    source, weights = tensors[op.inputs[0]], tensors[op.inputs[1]]
    count, rows, columns, channels = _kernel_shape(weights.shape)
    groups, stride = int(op.attrs.get("groups", 1)), max(pair(op.attrs.get("stride", (1, 1))))
    if groups > 1 and channels == 1:  # each word of features meets its own kernel alone
        packing = DSS2_BYTES if (rows, columns, stride) == (WINDOW, WINDOW, 2) else 1
        passes, pixels = 1, source.elements // groups
    elif rows == columns == 1:
        packing = DEEP_BYTES if channels >= LEAST_DEEP[DEEP_BYTES] else 1
        passes = ceil(count / groups / convacc_sizes(1, 1, BYTES, deep=packing > 1).kernels)
        pixels = tensors[op.outputs[0]].elements // count
    else:
        packing, passes = 1, ceil(count / groups / convacc_sizes(rows, columns, BYTES).kernels)
        pixels = source.elements // (groups * channels)
    windows = ceil(rows / WINDOW) * ceil(columns / WINDOW)
    features = passes * windows * pixels * groups * channels / packing
    return max(products, features, weights.elements / packing)


def _kernel_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Kernels, rows, columns, channels of each."""
    return (shape[0], 1, 1, prod(shape[1:])) if len(shape) < 4 else (shape[0], shape[1], shape[2], shape[3])
