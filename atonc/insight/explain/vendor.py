"""Networks that ST compiled: names of layers from its node names, rules from the library functions that it calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.select import rules as mapping
from atonc.insight.explain import decide, rules
from atonc.insight.explain.types import Decision, OperatorView, StepView, TensorView
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import count
from atonc.machine.emu import cpu
from atonc.machine.emu.cpu.struct_view import StructView
from atonc.machine.emu.cpu.tensors import tensor
from atonc.machine.emu.files.c_info import InfoNode
from atonc.machine.emu.files.types import FunctionCall

# ST derives the names of helper nodes from the node they help: Conv2D_7_suboff_0 is a part of Conv2D_7
_NODE = re.compile(r"((?:[A-Za-z][A-Za-z0-9]*_)+?\d+)(?=_|$)")
_NUMBERED = re.compile(r"([A-Za-z][\w]*?)(?:_inserted)?_(?:id)?\d+")
_KINDS = {
    **dict.fromkeys(("conv2d", "conv_2d", "depthwise_conv_2d", "convinteger"), "conv"),
    **dict.fromkeys(("gemm", "fully_connected", "matmul"), "dense"),
    **dict.fromkeys(("convtranspose", "transpose_conv"), "transpose_conv"),
    **dict.fromkeys(("maxpool", "max_pool_2d"), "max_pool"),
    **dict.fromkeys(("averagepool", "average_pool_2d", "globalaveragepool"), "average_pool"),
}
_INFLATED = "_weights_inflated"  # how kernels of depthwise convolutions are stored
_BY_NATURE = (
    ("dequantizelinear", "dequantize"),
    ("quantizelinear", "quantize"),
    ("softmax", "softmax"),
    ("argmax", "arg_max"),
    ("argmin", "arg_min"),
    ("resize", "resize_linear"),
    ("gather", "gather"),
    ("cast", "cast"),
)
_MOVES = (
    *("concat", "split", "pad", "slice", "transpose", "reshape", "gather", "squeeze", "flatten", "tile"),
    *("spacetodepth", "depthtospace", "imagetorow", "rowtoimage"),
)
_FUNCTIONS = ("relu", "prelu", "leakyrelu", "sigmoid", "tanh", "hardsigmoid", "hardswish", "clip", "elu")
_WEIGHTED = ("conv", "gemm", "matmul")
_MOST_WORDS = 3  # operators that a label names


def base_names(names: Iterable[str]) -> tuple[str, ...]:
    """The nodes behind names of parts or buffers, those named in full first."""
    listed = [name for name in names if name]
    whole = [name for name in listed if (match := _NODE.match(name)) and match[1] == name]
    helped = [match[1] if (match := _NODE.match(name)) else name for name in listed]
    return tuple(dict.fromkeys(whole or helped))


def nodes_of(info: InfoNode | None, written: Sequence[str]) -> tuple[str, ...]:
    """Source nodes of an epoch: as c_info.json lists them, else from its parts, else from the buffers it writes."""
    if info is None:
        return base_names(written)
    return info.original_nodes or base_names(part.name for part in info.parts) or base_names(written)


def kind_of(node: str, calls: Sequence[FunctionCall] = ()) -> str:
    """conv of Conv2D_7 or CONV_2D_3; of epochs without a name what the processor calls."""
    match = _NUMBERED.fullmatch(node)
    if match:
        kind = match[1].lower()
        return _KINDS.get(kind, kind)
    if calls:
        called = calls[0].name
        for start in ("ll_sw_forward_", "LL_ATON_LIB_", "atonc_"):
            called = called.removeprefix(start)
        return called.lower()
    return "epoch"


def operators_of(nodes: Iterable[str], held: Sequence[TensorView]) -> tuple[OperatorView, ...]:
    """Each node of a layer with the size of its kernels; weights are listed as outputs, inputs, rows, columns."""
    found = []
    for node in nodes:
        own = next((w for w in held if w.name.startswith(f"{node}_weights") and len(w.shape) == 4), None)
        kernel = (own.shape[0], *own.shape[2:]) if own else ()
        depthwise = own is not None and (_INFLATED in own.name or (own.shape[1] == 1 and own.shape[0] > 1))
        found.append(OperatorView(node, kind_of(node), kernel, depthwise))
    return tuple(found)


def label_of(operators: Sequence[OperatorView]) -> str:
    """`conv 1x1 + add`."""
    shown = [one for one in operators if one.kind != "epoch"]
    words = [_word(one) for one in shown[:_MOST_WORDS]]
    return " + ".join(words) + (" + ..." if len(shown) > _MOST_WORDS else "")


def _word(one: OperatorView) -> str:
    size = f" {one.kernel[1]}x{one.kernel[2]}" if one.kernel else ""
    return f"{'depthwise ' if one.depthwise else ''}{one.kind.replace('_', ' ')}{size}"


def weights_of(nodes: Iterable[str], params: Mapping[str, Sequence[TensorView]]) -> tuple[TensorView, ...]:
    return tuple(tensor for node in nodes for tensor in params.get(node, ()))


def params_by_node(params: Iterable[TensorView]) -> dict[str, list[TensorView]]:
    found: dict[str, list[TensorView]] = {}
    for one in params:
        match = _NODE.match(one.name)
        found.setdefault(match[1] if match else one.name, []).append(one)
    return found


def unique_layers(steps: Sequence[StepView]) -> tuple[StepView, ...]:
    """Epochs of a node that come back after others are a layer of their own: names say which time it is."""
    times: Counter[str] = Counter()
    found, last = list[StepView](), ("", "")
    for step in steps:
        if (step.layer, step.on) != last:
            times[step.layer] += 1
        last = (step.layer, step.on)
        again = times[step.layer]
        found.append(replace(step, layer=f"{step.layer} #{again}") if again > 1 else step)
    return tuple(found)


def node_of(layer: str) -> str:
    """The node behind the name of a layer."""
    return layer.partition(" #")[0]


def cpu_decisions(calls: Sequence[FunctionCall]) -> list[Decision]:
    """Why ST's compiler left this to the processor; one decision a rule."""
    found: dict[str, Decision] = {}
    for call in calls:
        for rule, seen in _rules(call):
            found.setdefault(rule.id, decide.decision(rule, seen))
    return list(found.values())


def form_decisions(kind: str, epochs: int) -> list[Decision]:
    """What the name of a node on the NPU says about its form."""
    found = []
    if kind in ("quantize", "dequantize", "identity", "cast"):
        found.append(decide.decision(rules.CONVERSION, f"{kind} in {count(epochs, 'epoch')}"))
    elif kind in _FUNCTIONS:
        found.append(decide.decision(rules.TABLE, kind))
    elif kind.startswith("resize"):
        found.append(decide.decision(rules.RESIZE, kind))
    elif any(word in kind for word in _MOVES) and "pool" not in kind:
        found.append(decide.decision(rules.MOVE, kind))
    if epochs > 1:
        found.append(decide.decision(rules.SPLIT, f"{count(epochs, 'epoch')}"))
    return found


def rule_of_kind(kind: str) -> Rule:
    """Finds the rule for a kind of node of ST's compiler, where no call is known."""
    name = kind.lower()
    nature = next((found for word, found in _BY_NATURE if word in name), "")
    if nature:
        return mapping.BY_NATURE[nature]
    return rules.MOVE if any(word in name for word in _MOVES) else rules.LIBRARY


def _rules(call: FunctionCall) -> list[tuple[Rule, str]]:
    name, seen = call.name.lower(), cpu.describe_call(call.name, list(call.args))
    nature = next((kind for word, kind in _BY_NATURE if word in name), "")
    if nature:
        return [(mapping.BY_NATURE[nature], seen)]
    if any(word in name for word in _MOVES):
        return [(rules.MOVE, seen)]
    if not name.startswith("ll_sw_forward_"):
        return [(rules.LIBRARY, seen)]
    weighted = any(word in name for word in _WEIGHTED)
    awkward = decide.awkward(_channels(call)) if weighted else ()
    found = [(rules.AWKWARD_CHANNELS, f"{' and '.join(map(str, awkward))} channels in {seen}")] if awkward else []
    if "integer" in name or "qlinear" in name:
        return found or [(rules.LIBRARY, f"{seen} on codes")]
    return [*found, (mapping.NOT_CODES, f"{seen} in float")]


def _channels(call: FunctionCall) -> tuple[int, ...]:
    try:
        info = StructView.of(call.args[0] if call.args else None, call.name)
        return tuple(tensor(info, f"general.{end}").shape[-1] for end in ("input", "output"))
    except AtoncError:
        return ()
