"""`atonc load-and-run --real`, last step: the validation firmware has installed the image, and runs it when asked.

Layer by layer. Outputs are compared with nothing here: that is `atonc validate --mode target`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.trials import image_edges
from atonc.delivery.trials.load_run import INFERENCES, Loaded, LoadPlan
from atonc.delivery.trials.loading import EpochTime
from atonc.delivery.trials.targeting import contradiction, milliseconds
from atonc.delivery.wire import messages
from atonc.delivery.wire.client import Client, ReportedLayer, TargetError
from atonc.delivery.wire.links import ByteLink
from atonc.delivery.wire.messages import ModelInfo
from atonc.machine.emu.files.types import EpochFlags

_KINDS = {2: EpochFlags.PURE_SW, 3: EpochFlags.HYBRID, 4: EpochFlags.BLOB}  # what the firmware calls a block
_KIND_BITS = 0xF


def run_on_board(plan: LoadPlan, link: ByteLink, seed: int = 0, files: Sequence[Path] = ()) -> Loaded:
    """Two inferences with the inputs of the files or of the seed; the times of the last one."""
    client = Client(link)
    try:
        client.connect()
        system, model = client.system_info(), _model(client, plan)
        edges = image_edges.from_wire(model.inputs, model.outputs)
        inputs = edges.stored(files, seed)
        for turn in range(INFERENCES):
            result = client.run(model, inputs, messages.IO_ONLY | messages.PER_LAYER, first=turn == 0)
        if contradiction(result, system.cpu_hz):
            raise TargetError("the board's times contradict its counters", where=link.description)
    finally:
        client.disconnect()
    mhz = system.cpu_hz / 1e6
    return Loaded(
        plan,
        f"{model.name}, {model.description}",
        round(1e3 * mhz * milliseconds(result, system.cpu_hz)),
        mhz,
        tuple(_epoch(layer) for layer in result.layers),
        edges.arrays(result.outputs),
        edges=edges,
        inputs=inputs,
        board=f"board at {link.description}",
        device=system.device,
        npu_hz=system.npu_hz,
    )


def _model(client: Client, plan: LoadPlan) -> ModelInfo:
    """The firmware holds one network, the installed image: its sizes must be those of the file."""
    models = client.models()
    if not models:
        raise TargetError(
            "the firmware runs without a network",
            rule="it looks for an image at 0x71000000, and for parameters of a split one at 0x71800000",
            remedy="flash the image there; the text at the start of the firmware says why it refuses one",
        )
    sizes = sum(tensor.elements * tensor.dtype.itemsize for tensor in models[0].params)
    if models[0].params and sizes != plan.image.context.params_bytes:
        raise TargetError(f"the board's network has {sizes:,} bytes of parameters: it is not {plan.file.name}")
    return models[0]


def _epoch(layer: ReportedLayer) -> EpochTime:
    operator = layer.operator
    first, last = operator.id & 0xFFFF, operator.id >> 16
    before, core, after = (*operator.cycles, 0, 0, 0)[:3]
    kind = _KINDS.get(operator.kind & _KIND_BITS, EpochFlags(0))
    return EpochTime(first, last if first <= last < 0x8000 else first, kind, before, core, after)
