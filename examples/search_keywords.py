"""Searches for a small keyword network under a limit of latency and RAM: `python examples/search_keywords.py`.

Candidates are depthwise separable, as ONNX with random weights. Of those that keep the limits the one with most
multiplications is taken, which stands here for accuracy: training would decide. It is quantised and compiled in full,
and the end says how far its estimate was off.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import atonc

FEATURES, CLASSES = (1, 1, 49, 10), 12  # MFCCs of a second
MOST_MS, MOST_RAM = 1.0, 64 * 1024


def candidate(channels: int, blocks: int, stride: int) -> Any:
    """A convolution, blocks of depthwise and pointwise ones, a mean and a dense layer."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: dict[str, np.ndarray[Any, Any]] = {}

    def conv(x: str, shape: tuple[int, ...], **attributes: Any) -> str:
        name = f"conv{len(weights)}"
        weights[f"{name}_w"] = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        nodes.append(helper.make_node("Conv", [x, f"{name}_w"], [name], name, **attributes))
        nodes.append(helper.make_node("Relu", [name], [f"{name}_relu"], f"{name}_relu"))
        return f"{name}_relu"

    x = conv("mfcc", (channels, 1, 5, 3), pads=[2, 1, 2, 1], strides=[stride, stride])
    for _ in range(blocks):
        x = conv(x, (channels, 1, 3, 3), pads=[1, 1, 1, 1], group=channels)
        x = conv(x, (channels, channels, 1, 1))
    weights["dense_w"] = rng.standard_normal((CLASSES, channels)).astype(np.float32)
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "dense_w"], ["scores"], "dense", transB=1),
    ]
    given = helper.make_tensor_value_info("mfcc", onnx.TensorProto.FLOAT, FEATURES)
    found = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, (1, CLASSES))
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, f"ds_cnn_{channels}_{blocks}_{stride}", [given], [found], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def search(count: int, seed: int = 0) -> tuple[Any, Any]:
    """The best candidate of so many, and its estimate. Any search will do: Optuna, evolution, or chance as here."""
    chance, best = random.Random(seed), None
    for _ in range(count):
        model = candidate(8 * chance.randint(2, 20), chance.randint(1, 6), chance.choice((1, 2)))
        found = atonc.estimate(model)
        fits = found.latency_ms <= MOST_MS and found.ram_bytes <= MOST_RAM
        if fits and (best is None or found.macs > best[1].macs):
            best = model, found
    assert best is not None, "no candidate keeps the limits: try more of them"
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=40)
    model, found = search(parser.parse_args().candidates)
    print(f"{model.graph.name}: {found.latency_ms:.3f} ms, {found.ram_bytes:,} bytes of RAM, {found.macs:,} MACs")
    samples = np.random.default_rng(1).standard_normal((32, *FEATURES[1:])).astype(np.float32)
    types = {"input_data_type": "int8", "output_data_type": "int8"}
    compiled = atonc.compile(atonc.quantize(model, {"mfcc": samples}), **types)
    off = found.latency_ms / compiled.latency_ms - 1
    sizes = f"{compiled.latency_ms:.3f} ms, {compiled.memory.ram_bytes:,} bytes of RAM"
    print(f"compiled: {sizes}; the estimate is {off:+.1%} off")


if __name__ == "__main__":
    main()
