"""A keyword network from PyTorch to an ExecuTorch program for the STM32N6, and that in ExecuTorch's own runtime.

pip install '.[executorch]'
python examples/delegate.py keywords.pte
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import atonc

try:
    import torch
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed\n  fix: pip install '.[executorch]', in the clone of atonc")

nn = torch.nn
SHAPE = (1, 1, 49, 10)  # windows of sound x cepstral coefficients


def network() -> Any:
    """Depthwise separable convolutions; train it before you judge its answers."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 32, (10, 4), stride=2, padding=(4, 1), bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        layers += [nn.Conv2d(32, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 12)).eval()


def quantised(module: Any, example: tuple[Any, ...]) -> Any:
    prepared = prepare_pt2e(torch.export.export(module, example).module(), atonc.executorch.AtonQuantizer())
    for _ in range(16):  # yours: inputs as in use
        prepared(torch.randn(SHAPE))
    return torch.export.export(convert_pt2e(prepared), example)


def main(target: Path) -> None:
    example = (torch.randn(SHAPE),)
    program = quantised(network(), example)
    partitioner = atonc.executorch.AtonPartitioner()
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    for node in partitioner.undelegated:
        print("stays with ExecuTorch:", node)
    target.write_bytes(edge.to_executorch().buffer)
    atonc.executorch.register()
    (found,) = Runtime.get().load_program(str(target)).load_method("forward").execute(example)
    away = (found - program.module()(*example)).abs().max()
    print(f"{target}: {target.stat().st_size:,} bytes, {len(partitioner.undelegated)} nodes outside")
    print(f"on the emulated NPU: {[round(float(value), 3) for value in found[0]]}")
    print(f"PyTorch computes the same within {float(away):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "keywords.pte"))
