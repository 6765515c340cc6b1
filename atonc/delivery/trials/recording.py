"""`--record`: what a board computed and how long it took, in one file that others can check.

The arrays have the names that ST's tool gives them (m_: the model, c_: the target), so that its scripts read them too;
`atonc` holds everything else as JSON.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.trials.targeting import TargetValidation
from atonc.delivery.wire.messages import TensorInfo
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import write_file


def save(path: Path, found: TargetValidation, model: str, reproduce: dict[str, str]) -> None:
    arrays: dict[str, Any] = {}
    for k, tensor in enumerate(found.model.inputs):
        arrays[f"m_inputs_{k + 1}"] = _stacked([turn.inputs[k] for turn in found.turns], tensor)
        arrays[f"c_inputs_{k + 1}"] = arrays[f"m_inputs_{k + 1}"]
    for k, tensor in enumerate(found.model.outputs):
        arrays[f"m_outputs_{k + 1}"] = _stacked([turn.expected[k] for turn in found.turns], tensor)
        arrays[f"c_outputs_{k + 1}"] = _stacked([turn.outputs[k] for turn in found.turns], tensor)
    told = {
        "atonc": __version__,
        "model": model,
        "reproduce": reproduce,
        "line": found.line,
        "protocol": found.protocol,
        "system": asdict(found.system),
        "network": asdict(found.model),
        "identity": found.identity,
        "equal": found.equal,
        "milliseconds": [turn.milliseconds for turn in found.turns],
        "measured": asdict(found.measured),
        "outputs_expected_from": "atonc's emulator",
    }
    arrays["atonc"] = np.frombuffer(json.dumps(told, indent=1).encode(), np.uint8)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_file(path, stream.getvalue())


def _stacked(values: list[bytes], tensor: TensorInfo) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Samples take the place of a batch of one."""
    shape = tensor.shape[1:] if len(tensor.shape) > 1 and tensor.shape[0] == 1 else tensor.shape
    return np.frombuffer(b"".join(values), tensor.dtype).reshape(len(values), *shape)
