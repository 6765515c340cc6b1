"""The quantiser for PT2E: scales where the compiled network has codes, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from atonc.delivery.executorch.operators import ARITHMETIC, FUNCTIONS, FUSED, MOVES, WEIGHTED
from atonc.machine.base.errors import InputError

_KEY = "quantization_annotation"
_LEAST_SCALE = 2.0**-24  # a tensor that is always 0 gets a scale, too
_OBSERVERS = {"histogram": HistogramObserver, "range": MinMaxObserver}


class AtonQuantizer(Quantizer):  # type: ignore[misc]
    """For `prepare_pt2e`: activations int8, one scale a tensor; weights symmetric, one scale an output channel; biases
    int32 in units of what is multiplied. A ReLU shares the scale of the layer before it, what is moved or pooled has
    one scale on both sides. `weight_bits=4`: codes of -7 to 7. `activation_bits=16`: int16 without zero point.
    `observer`: how ranges of activations are found.
    """

    def __init__(self, weight_bits: int = 8, activation_bits: int = 8, observer: str = "histogram") -> None:
        super().__init__()
        if weight_bits not in (4, 8) or activation_bits not in (8, 16) or observer not in _OBSERVERS:
            given = f"weight_bits={weight_bits!r}, activation_bits={activation_bits!r}, observer={observer!r}"
            raise InputError(f"AtonQuantizer({given})", rule="bits of weights are 4 or 8, of activations 8 or 16; "
                             "observer is 'histogram' or 'range'")  # fmt: skip
        most = (1 << (weight_bits - 1)) - 1
        seen = _OBSERVERS[observer].with_args(eps=_LEAST_SCALE)
        wide = activation_bits == 16
        dtype, scheme = (
            (torch.int16 if wide else torch.int8),
            (torch.per_tensor_symmetric if wide else torch.per_tensor_affine),
        )
        half = 1 << (activation_bits - 1)
        self.activation = QuantizationSpec(dtype, seen, -half, half - 1, qscheme=scheme)
        self._weight = partial(
            QuantizationSpec,
            torch.int8,
            PerChannelMinMaxObserver.with_args(eps=_LEAST_SCALE),
            -most,
            most,
            qscheme=torch.per_channel_symmetric,
        )

        self._alike = QuantizationSpec(
            torch.int8, MinMaxObserver.with_args(eps=_LEAST_SCALE), -most, most, qscheme=torch.per_tensor_symmetric
        )

    def annotate(self, model: Any) -> Any:
        for node in model.graph.nodes:
            if node.op == "call_function" and _is_float(node) and _KEY not in node.meta:
                kind = _kind(node)
                if kind is not None:
                    self._kinds[kind](self, node)
        return model

    def validate(self, model: Any) -> None:
        """Every operator can be beside every other."""

    def _weighted(self, node: Any) -> None:
        source, weights, *rest = node.args
        if not _is_constant(weights):
            self._computed(node)
            return
        transposed = "transpose" in str(node.target)
        grouped = transposed and node.meta["val"].shape[1] != weights.meta["val"].shape[1]
        # an output channel of a transposed convolution in groups is no slice of its weights
        scaled = self._alike if grouped else self._weight(ch_axis=int(transposed))
        inputs = {source: self.activation, weights: scaled}
        if rest and rest[0] is not None:
            inputs[rest[0]] = _bias(node, source, weights, scaled.qscheme)
        self._note(node, inputs)

    def _computed(self, node: Any) -> None:
        self._note(node, {one: self.activation for one in _read(node)})

    def _moved(self, node: Any) -> None:
        first, *others = _read(node)
        shared = SharedQuantizationSpec((first, node))
        inputs = {first: self.activation, **dict.fromkeys(others, shared)}
        node.meta[_KEY] = QuantizationAnnotation(inputs, shared, _annotated=True)

    def _note(self, node: Any, inputs: Mapping[Any, Any]) -> None:
        """The output's scale stands behind a ReLU that nobody else reads past."""
        readers = list(node.users)
        fused = len(readers) == 1 and readers[0].target in FUSED
        node.meta[_KEY] = QuantizationAnnotation(dict(inputs), None if fused else self.activation, _annotated=True)
        if fused:
            readers[0].meta[_KEY] = QuantizationAnnotation({}, self.activation, _annotated=True)

    _kinds: Mapping[str, Callable[[AtonQuantizer, Any], None]] = {
        "weighted": _weighted,
        "computed": _computed,
        "moved": _moved,
    }


def _kind(node: Any) -> str | None:
    kinds = (("weighted", WEIGHTED), ("moved", MOVES), ("computed", (*FUNCTIONS, *ARITHMETIC)))
    return next((kind for kind, targets in kinds if node.target in targets), None)


def _is_float(node: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _read(node: Any) -> list[Any]:
    """Tensors of floats that it reads, each once; those of a list, too."""
    return [one for one in node.all_input_nodes if _is_float(one)]


def _is_constant(node: Any) -> bool:
    return bool(node.op == "get_attr")


def _bias(node: Any, source: Any, weights: Any, scheme: Any) -> Any:
    def derived(observers: Any) -> tuple[Any, Any]:
        scales = observers[0].calculate_qparams()[0] * observers[1].calculate_qparams()[0]
        return scales, torch.zeros_like(scales, dtype=torch.int32)

    least, most = -(1 << 31), (1 << 31) - 1
    return DerivedQuantizationSpec(
        [(source, node), (weights, node)], derived, torch.int32, least, most, scheme, ch_axis=0
    )
