"""Small models with something wrong in them: damaged bytes, absurd numbers, graphs that bite their own tail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.onnx_models import Net
from tests.frontends.tflite_models import O, T, build

Random = np.random.Generator

SIZES = (0, -1, 1, 7, 255, 65_537, 1 << 20, 1 << 24, (1 << 31) - 1, -(1 << 31))
SCALES = (0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e38, 1e-12)
NAMES = (
    "../../../etc/passwd", "/etc/passwd", "C:\\windows\\x", "a\x00b", "", "n" * 10_000, "\u202egnp.exe", "%s%n{0}",
    "x\ny", "$(touch hacked)", "con", ".",
)  # fmt: skip
CODES = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "MAX_POOL_2D", "RESHAPE", "CONCATENATION",
    "PAD", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SPLIT", "STRIDED_SLICE", "GATHER", "TRANSPOSE", "MEAN",
    "SOFTMAX", "PRELU", "WHILE", "IF", "CUSTOM", "CAST", "PACK", "UNPACK", "TILE",
)  # fmt: skip
KINDS = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "Expand", "Tile", "Pad", "Resize", "Reshape", "ConstantOfShape", "Range",
    "Loop", "If", "Scan", "Gather", "Slice", "Split", "Concat", "LSTM", "Upsample", "OneHot", "Transpose", "MaxPool",
)  # fmt: skip


def pick(rng: Random, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


# ------------------------------------------------------------------------------------------------------------ TFLite


def tflite_parts() -> tuple[list[T], list[O]]:
    """conv -> pool -> add -> dense -> softmax, on 4 x 4 pixels."""
    rng = np.random.default_rng(0)
    tensors = [
        T("x", (1, 4, 4, 3), scale=0.02, zero=-5),
        T("w", (4, 3, 3, 3), scale=[0.01] * 4, data=rng.integers(-127, 128, (4, 3, 3, 3))),
        T("b", (4,), "int32", scale=[0.0002] * 4, data=rng.integers(-500, 500, 4)),
        T("a", (1, 4, 4, 4), scale=0.03, zero=-128),
        T("p", (1, 2, 2, 4), scale=0.03, zero=-128),
        T("k", (1, 1, 1, 4), scale=0.01, data=[[[[1, 2, 3, 4]]]]),
        T("s", (1, 2, 2, 4), scale=0.03, zero=-100),
        T("shape", (2,), "int32", data=[1, 16]),
        T("f", (1, 16), scale=0.03, zero=-100),
        T("v", (3, 16), scale=0.01, data=rng.integers(-127, 128, (3, 16))),
        T("c", (3,), "int32", scale=0.0003, data=[1, 2, 3]),
        T("l", (1, 3), scale=0.05, zero=3),
        T("y", (1, 3), scale=1 / 256, zero=-128),
    ]
    same: dict[int, tuple[str, Any]] = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("b", 1), 4: ("i", 1), 5: ("i", 1)}
    window: dict[int, tuple[str, Any]] = {0: ("b", 1), 1: ("i", 2), 2: ("i", 2), 3: ("i", 2), 4: ("i", 2)}
    ops = [
        O("CONV_2D", ["x", "w", "b"], ["a"], "Conv2DOptions", same),
        O("MAX_POOL_2D", ["a"], ["p"], "Pool2DOptions", window),
        O("ADD", ["p", "k"], ["s"], "AddOptions"),
        O("RESHAPE", ["s", "shape"], ["f"]),
        O("FULLY_CONNECTED", ["f", "v", "c"], ["l"], "FullyConnectedOptions"),
        O("SOFTMAX", ["l"], ["y"], "SoftmaxOptions", {0: ("f", 1.0)}),
    ]
    return tensors, ops


def hostile_tflite(rng: Random) -> bytes:
    tensors, ops = tflite_parts()
    ends = ["x"], ["y"]
    for _ in range(pick(rng, (1, 1, 1, 2, 3))):
        wrong = pick(rng, (_tensor_wrong, _tensor_wrong, _operator_wrong, _operator_wrong, _name_wrong))
        wrong(rng, tensors, ops)
    if rng.random() < 0.1:
        ends = pick(rng, ((["y"], ["x"]), ([], ["y"]), (["x"], []), (["w"], ["w"]), (["x", "x"], ["y", "y"])))
    known = {t.name for t in tensors}
    return build(tensors, ops, *([name for name in names if name in known] for names in ends))


def _tensor_wrong(rng: Random, tensors: list[T], ops: list[O]) -> None:
    k = int(rng.integers(len(tensors)))
    old = tensors[k]
    shape = list(old.shape) or [1]
    shape[int(rng.integers(len(shape)))] = pick(rng, SIZES)
    changes: list[dict[str, Any]] = [
        {"shape": tuple(shape)},
        {"shape": tuple(pick(rng, SIZES) for _ in range(int(rng.integers(0, 10))))},
        {"shape": (1, 1 << 14, 1 << 14, 64)},
        {"scale": pick(rng, SCALES)},
        {"scale": [0.1] * int(rng.integers(0, 6)), "axis": pick(rng, (-1, 0, 3, 9, 1 << 30))},
        {"zero": pick(rng, (-129, 128, 1 << 40, -(1 << 62)))},
        {"scale": None},
        {"data": None},
        {"dtype": pick(rng, ("float32", "int32", "uint8", "int64", "int16"))},
        {"data": pick(rng, SIZES) * np.ones(2, np.int64), "dtype": "int32"},
    ]
    try:
        candidate = replace(old, **pick(rng, changes))
        if candidate.data is not None:
            np.asarray(candidate.data, candidate.dtype)
        tensors[k] = candidate
    except (OverflowError, ValueError):  # the builder itself cannot write it
        return


def _operator_wrong(rng: Random, tensors: list[T], ops: list[O]) -> None:
    k = int(rng.integers(len(ops)))
    op, names = ops[k], [t.name for t in tensors]
    some = [pick(rng, names) for _ in range(int(rng.integers(0, 6)))]
    numbers = {f: ("i", pick(rng, SIZES)) if kind == "i" else ("b", pick(rng, (-1, 2, 9, 127))) for f, (kind, _) in
               op.fields.items() if kind in "ib"}  # fmt: skip
    changed = [
        replace(op, inputs=[*op.outputs[:1], *op.inputs[1:]]),  # reads what it writes
        replace(op, inputs=["y", *op.inputs[1:]]),
        replace(op, outputs=[pick(rng, names)]),
        replace(op, inputs=some),
        replace(op, outputs=some),
        replace(op, code=pick(rng, CODES)),
        replace(op, code=pick(rng, CODES), options="", fields={}),
        replace(op, fields={**op.fields, **dict([pick(rng, list(numbers.items()))])} if numbers else {}),
        replace(op, inputs=op.inputs * 40),
    ]
    ops[k] = pick(rng, changed)
    if rng.random() < 0.15:
        ops.reverse()
    if rng.random() < 0.1:
        ops.append(ops[0])


def _name_wrong(rng: Random, tensors: list[T], ops: list[O]) -> None:
    """Path-like, endless or doubled names; operators follow, as they count by number anyway."""
    k = int(rng.integers(len(tensors)))
    old, new = tensors[k].name, pick(rng, (*NAMES, tensors[0].name))
    if new in {t.name for t in tensors}:
        return
    tensors[k] = replace(tensors[k], name=new)
    for number, op in enumerate(ops):
        inputs, outputs = ([new if n == old else n for n in part] for part in (op.inputs, op.outputs))
        ops[number] = replace(op, inputs=inputs, outputs=outputs)


# -------------------------------------------------------------------------------------------------------------- ONNX


def onnx_model() -> onnx.ModelProto:
    net = Net()
    x = net.qdq("x", 0.02)
    a = net.qdq(net.node("Relu", [net.conv(x, (4, 3, 3, 3), 0.02, pads=[1, 1, 1, 1])])[0], 0.03, -128)
    p = net.qdq(net.node("MaxPool", [a], kernel_shape=[2, 2], strides=[2, 2])[0], 0.03, -128)
    r = net.node("Resize", [p, "", net.const(np.array([1, 1, 2, 2], np.float32))], mode="nearest")[0]
    s = net.qdq(net.node("Add", [net.qdq(r, 0.03, -128), a])[0], 0.05, -100)
    f = net.node("Reshape", [s, net.const(np.array([1, 64], np.int64))])[0]
    return onnx.ModelProto.FromString(net.model({"x": (1, 3, 4, 4)}, [net.qdq(f, 0.05, -100)]))


def hostile_onnx(rng: Random, model: onnx.ModelProto | None = None) -> bytes:
    """Damages the model above, or another one, which is changed."""
    model = onnx_model() if model is None else model
    wrongs = (_constant_wrong, _node_wrong, _node_wrong, _edge_wrong, _outside_wrong, _giant_wrong)
    for _ in range(pick(rng, (1, 1, 2))):
        with suppress(IndexError, ValueError):  # other models may lack what is to be changed
            pick(rng, wrongs)(rng, model.graph)
    if rng.random() < 0.05:
        model.opset_import[0].version = pick(rng, (0, 1, 99, 1 << 40))
    return bytes(model.SerializeToString())


def _constant_wrong(rng: Random, graph: onnx.GraphProto) -> None:
    tensor = pick(rng, graph.initializer)
    style = int(rng.integers(5))
    if style == 0:
        tensor.dims[:] = [pick(rng, SIZES) for _ in range(int(rng.integers(0, 9)))]
    elif style == 1:
        tensor.data_type = int(rng.integers(0, 30))
    elif style == 2:
        tensor.raw_data = rng.bytes(int(rng.integers(0, 64)))
    elif style == 3:
        tensor.CopyFrom(numpy_helper.from_array(np.float32(pick(rng, SCALES)), tensor.name))
    else:
        tensor.name = pick(rng, NAMES).replace("\x00", "0")


def _node_wrong(rng: Random, graph: onnx.GraphProto) -> None:
    node = pick(rng, graph.node)
    everything = [n for other in graph.node for n in (*other.input, *other.output)]
    style = int(rng.integers(6))
    if style == 0:
        node.op_type = pick(rng, KINDS)
    elif style == 1 and node.attribute:
        attribute = pick(rng, node.attribute)
        attribute.CopyFrom(helper.make_attribute(attribute.name, [pick(rng, SIZES) for _ in range(4)]))
    elif style == 2:  # a ring, or a node fed by what comes after it
        node.input[0] = pick(rng, (node.output[0], graph.node[-1].output[0], pick(rng, everything)))
    elif style == 3:
        node.output[0] = pick(rng, everything)
    elif style == 4:
        node.name = node.output[0] = pick(rng, NAMES).replace("\x00", "0")
    else:
        del node.input[:]
        node.input.extend(pick(rng, everything) for _ in range(int(rng.integers(0, 5))))


def _edge_wrong(rng: Random, graph: onnx.GraphProto) -> None:
    """The ends of the graph: shapes, types, names, none at all."""
    shape = [pick(rng, (*SIZES, "n", None)) for _ in range(int(rng.integers(0, 7)))]
    info = helper.make_tensor_value_info("x", pick(rng, (TensorProto.FLOAT, TensorProto.STRING, 0, 99)), shape)
    style = int(rng.integers(3))
    if style == 0:
        graph.input[0].CopyFrom(info)
    elif style == 1:
        graph.output[0].name = pick(rng, (*NAMES[:3], "x", "nowhere"))
    else:
        del pick(rng, (graph.input, graph.output))[:]


def _outside_wrong(rng: Random, graph: onnx.GraphProto) -> None:
    """Constants that claim to lie in other files."""
    tensor = pick(rng, graph.initializer)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", pick(rng, NAMES[:6])), ("offset", str(pick(rng, SIZES))), ("length", "99999999")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value.replace("\x00", "0")


def _giant_wrong(rng: Random, graph: onnx.GraphProto) -> None:
    """Few bytes that ask for very many."""
    first = graph.node[0].input[0]
    sizes = np.array([1, *(pick(rng, (1 << 10, 1 << 16, 1 << 20, 1 << 30)) for _ in range(3))], np.int64)
    graph.initializer.append(numpy_helper.from_array(sizes, "giant"))
    graph.initializer.append(numpy_helper.from_array(np.concatenate([0 * sizes, sizes]), "giant_pads"))
    graph.initializer.append(numpy_helper.from_array(sizes.astype(np.float32), "giant_scales"))
    nodes = [
        helper.make_node("Expand", [first, "giant"], ["big"]),
        helper.make_node("Tile", [first, "giant"], ["big"]),
        helper.make_node("ConstantOfShape", ["giant"], ["big"]),
        helper.make_node("Pad", [first, "giant_pads"], ["big"]),
        helper.make_node("Resize", [first, "", "giant_scales"], ["big"], mode="nearest"),
        helper.make_node("Reshape", [first, "giant"], ["big"]),
    ]
    graph.node.insert(0, pick(rng, nodes))
    graph.node[1].input[0] = "big"


# --------------------------------------------------------------------------------------------------------------- all


def damaged(rng: Random, good: bytes) -> bytes:
    """Some bytes flipped, sometimes cut off, sometimes a piece doubled."""
    data = bytearray(good)
    for position in rng.integers(0, len(data), int(rng.integers(1, 9))):
        data[position] = pick(rng, (0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))))
    style = rng.random()
    if style < 0.2:
        return bytes(data[: int(rng.integers(0, len(data)))])
    if style < 0.3:
        middle = int(rng.integers(0, len(data)))
        return bytes(data[:middle] + data[middle // 2 :])
    return bytes(data)


def hostile_models(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """File name and contents; each follows from the seed and its number."""
    goods = {"tflite": build(*tflite_parts(), ["x"], ["y"]), "onnx": bytes(onnx_model().SerializeToString())}
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        suffix = ("tflite", "onnx")[number % 2]
        if number % 4 < 2:
            yield f"{number}.{suffix}", damaged(rng, goods[suffix])
        else:
            yield f"{number}.{suffix}", (hostile_tflite if suffix == "tflite" else hostile_onnx)(rng)
