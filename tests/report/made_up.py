"""A network of a thousand layers that nobody compiled."""

from __future__ import annotations

import random

from atonc.compiler.place.usage import CountedPool, memory_use
from atonc.insight.explain.types import (
    BufferView,
    LayerFacts,
    LayerView,
    NetworkView,
    OperatorView,
    PoolView,
    StepView,
    TensorView,
)


def made_up(count: int = 1000) -> NetworkView:
    """Residual blocks and concatenations over far layers, as detectors have them."""
    draw = random.Random(1)
    steps, layers = list[StepView](), list[LayerView]()
    tensors = {"image": TensorView("image", (1, 480, 480, 3), "uint8", 0.0039, 0)}
    outputs, block = ["image"], "image"
    for k in range(count):
        kind = ("conv", "conv", "conv", "add")[k % 4] if k % 40 != 39 else "concat"
        second = {"add": block, "concat": outputs[max(0, k - 38)]}.get(kind, outputs[-1])
        sources = tuple(dict.fromkeys((outputs[-1], second)))
        block = outputs[-1] if k % 4 == 3 else block
        name, shape = f"model/stage{k // 40}/block{k // 4}/{kind}_{k}", (1, 60, 60, 8 * (1 + k // 100))
        tensors[name] = TensorView(name, shape, "int8", 0.02, -128)
        cycles = round(10 ** draw.uniform(4, 5.5))
        label = {"conv": ("conv 1x1", "depthwise conv 3x3", "conv 3x3 /2")[k % 3]}.get(kind, kind)
        operator = OperatorView(name, kind, (64, 3, 3) if kind == "conv" else ())
        bound = draw.choice(("feature", "output", "compute", "flash"))
        facts = LayerFacts(
            name=name, kind=kind, nodes=(name,), inputs=sources, outputs=(name,), shape=shape, macs=9 * cycles,
            label=label, attributes={"stride": "1, 1"}, operators=(operator,),
        )  # fmt: skip
        step = StepView(
            number=k + 1, on="npu" if k % 50 else "cpu", title=name, layer=name, cycles=cycles,
            milliseconds=cycles / 1e6, st_cycles=cycles, bound_by=bound,
        )  # fmt: skip
        steps.append(step)
        layers.append(LayerView.of(facts, [step]))
        outputs.append(name)
    buffers = tuple(
        BufferView(one.name, "npuRAM3", 0x34200000 + 4096 * (k % 96), 28800, k + 1, k + 4, "activation", one.name)
        for k, one in enumerate(layers)
    )
    pools = (PoolView("npuRAM3", 0x34200000, 448 << 10, 400 << 10, external=False),)
    memory = memory_use(buffers, [CountedPool("npuRAM3", 0x34200000, 448 << 10, writable=True, external=False)])
    edges = (tensors["image"],), (tensors[outputs[-1]],)
    return NetworkView(
        name="network", model="a thousand layers", tool="atonc", board="stm32n6570-dk", npu_mhz=1000.0, cpu_mhz=800.0,
        steps=tuple(steps), layers=tuple(layers), buffers=buffers, pools=pools, memory=memory,
        inputs=edges[0], outputs=edges[1], tensors=tensors,
    )  # fmt: skip
