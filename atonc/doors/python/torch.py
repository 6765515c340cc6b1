"""`atonc.torch`: PyTorch modules in, and training as the chip rounds (docs/pytorch.md). PyTorch is imported when one of
these functions is called, not before."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atonc.compiler.ir import Array
    from atonc.doors.python.compilation import Compilation
    from atonc.doors.python.results import QuantisedResult
    from atonc.insight.training.network import TrainingNetwork

MADE_SAMPLES = 32  # where the caller gives none


def to_onnx(module: Any, example: Any) -> Any:
    """The module as a float `onnx.ModelProto`: evaluated, with the shapes of the example (a tensor, or a tuple of
    them), its nodes named after the modules that they come from."""
    from atonc.insight.quantizing.from_torch import onnx_of_module

    return onnx_of_module(module, example)


def quantize(module: Any, example: Any, samples: Any = None, **options: Any) -> QuantisedResult:
    """A float module as int8 ONNX.

    `samples` calibrate: a tensor or array with samples first, a tuple of them, one per input, or a dictionary by the
    names of the inputs. Left out, they are made with mean and deviation of the example, and a warning says so: good to
    see whether and how fast a module runs, not to judge its answers. The options are those of `atonc.quantize`.
    """
    return _quantised(module, example, samples, options)


def compile(
    module: Any,
    example: Any,
    samples: Any = None,
    *,
    name: str = "network",
    quantize: Mapping[str, Any] | None = None,
    **options: Any,
) -> Compilation:
    """A float module as a verified program: exported, quantised with the samples, compiled.

    `samples` as for `atonc.torch.quantize`, `quantize`: its options; all others are those of `atonc.compile`.
    """
    from atonc.doors.python.interface import compile as compile_model

    return compile_model(_quantised(module, example, samples, dict(quantize or {})), name=name, **options)


def prepare(
    module: Any, example: Any, samples: Any, *, quantize: Mapping[str, Any] | None = None, **options: Any
) -> TrainingNetwork:
    """The module as the chip will compute it, ready to train: a `torch.nn.Module` with codes exactly where the
    compiled network has them, starting from what `atonc.torch.quantize` makes of it.

    It takes batches, and its parameters are weights, biases and scales. The options are those of
    `atonc.insight.training.types.PrepareOptions`; `quantize`: those of `atonc.quantize`, such as `bits="4"`.
    """
    from atonc.insight.training.network import TrainingNetwork
    from atonc.insight.training.types import PrepareOptions
    from atonc.machine.base.declare import arguments

    wanted = arguments(PrepareOptions, options)
    made = _quantised(module, example, samples, {"objective": "accuracy", **(quantize or {})})
    return TrainingNetwork(made.model, wanted)


def export(prepared: TrainingNetwork, path: str | PathLike[str]) -> None:
    """Writes what was trained as ONNX with QuantizeLinear and DequantizeLinear, which `atonc.compile` and `atonc
    generate` take, with exactly the scales of the training."""
    from atonc.insight.training.network import written
    from atonc.machine.base.disk import write_file

    write_file(Path(path), written(prepared).SerializeToString(deterministic=True))


def _quantised(module: Any, example: Any, samples: Any, options: Mapping[str, Any]) -> QuantisedResult:
    from atonc.compiler.frontends.tails import note_of
    from atonc.doors.python.interface import quantize as quantize_model

    model = to_onnx(module, example)
    made = quantize_model(model, _arrays(model, example, samples), **options)
    if made.tail is not None:  # outputs are not those of the module
        warnings.warn(note_of(made.tail), stacklevel=4)
    return made


def _arrays(model: Any, example: Any, samples: Any) -> dict[str, Array]:
    """Samples by the names of the inputs."""
    from atonc.machine.base.errors import InputError

    names = [value.name for value in model.graph.input]
    if samples is None:
        warnings.warn(
            f"no samples are given: {MADE_SAMPLES} are made with mean and deviation of the example, which says nothing "
            "of accuracy. Give samples=... to calibrate with real ones.",
            stacklevel=4,
        )
        return _made(names, example)
    if isinstance(samples, Mapping):
        return {name: _array(values) for name, values in samples.items()}
    given = samples if isinstance(samples, tuple) else (samples,)
    if len(given) != len(names):
        raise InputError(
            f"samples of {len(given)} inputs, but the module has {len(names)}: {', '.join(names)}",
            remedy="give a tuple with an array for each input, or a dictionary by name; samples come first",
        )
    return {name: _array(values) for name, values in zip(names, given, strict=True)}


def _array(values: Any) -> Array:
    """A tensor of torch, or whatever numpy takes."""
    import numpy as np

    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _made(names: list[str], example: Any) -> dict[str, Array]:
    import numpy as np

    random = np.random.default_rng(0)
    made = {}
    for name, tensor in zip(names, example if isinstance(example, tuple) else (example,), strict=True):
        values = _array(tensor).astype(np.float32)
        spread = float(values.std()) or 1.0
        made[name] = random.normal(float(values.mean()), spread, (MADE_SAMPLES, *values.shape[1:])).astype(np.float32)
    return made
