"""What the user may ask of the passes."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from atonc.machine.base.frozen import dataclass


class PassOptionsLike(Protocol):
    """Anything with these attributes will do."""

    @property
    def cut_outputs(self) -> tuple[str, ...]: ...
    @property
    def input_type(self) -> str: ...
    @property
    def output_type(self) -> str: ...


@dataclass(frozen=True)
class PassOptions:
    cut_outputs: tuple[str, ...] = ()  # tensors that become the outputs
    input_type: str = ""  # float32, int8, uint8 or int16; empty: as in the model
    output_type: str = ""
    inputs_channel_position: str = ""  # chfirst or chlast; empty: as in the model
    outputs_channel_position: str = ""
    fixed_shapes: dict[str, int] = field(default_factory=dict)  # used by the front ends
