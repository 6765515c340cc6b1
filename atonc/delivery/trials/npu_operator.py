"""What a custom operator or a delegate holds, installed on the virtual board by our loader."""

from __future__ import annotations

import tempfile
from pathlib import Path

from atonc.delivery.layouts.tflite_model import npu_operator
from atonc.delivery.trials import loading
from atonc.delivery.trials.boarding import FirmwareError
from atonc.delivery.trials.loading import LoaderRig
from atonc.machine.base.errors import AtoncError, ModelError, ToolError


def install(data: bytes, where: str, again: str) -> LoaderRig:
    """A board with the image; `again` says how to get data that are right."""
    try:
        operator = npu_operator(data, where)
        rig = _board(operator.image)
    except ToolError:
        raise
    except FirmwareError as error:
        raise ModelError(f"its image is refused: {error.line[:200]}", where=where, remedy=again) from error
    except AtoncError as error:  # it may name a file that nobody else knows
        raise ModelError(error.what, where=where, rule=error.rule, remedy=again) from error
    if (len(rig.inputs.get(0, [])), len(rig.outputs.get(0, []))) != (operator.inputs, operator.outputs):
        raise ModelError("it says of itself other inputs or outputs than its image has", where=where, remedy=again)
    return rig


def _board(content: bytes) -> LoaderRig:
    with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
        image = Path(folder, "network_rel.bin")
        image.write_bytes(content)
        return loading.installed(loading.plan(image, "xip", hex(loading.FLASH)))[0]
