"""What the user may ask of the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """Command-line flags, profile files and the reference derive from this."""

    board: str = "stm32n6570-dk"
    mpool: str = ""
    numerics: str = "best"  # or "2.x"
    prefer: str = "speed"  # or "memory"
    cut_outputs: tuple[str, ...] = ()
    input_type: str = ""
    output_type: str = ""
    inputs_channel_position: str = ""
    outputs_channel_position: str = ""
    fixed_shapes: dict[str, int] = field(default_factory=dict)
    inputs_allocation: bool = True  # False: the application supplies the memory of the inputs
    outputs_allocation: bool = True
    epoch_controller: bool = True  # False: the processor starts every epoch
    relocatable: bool = False  # memories outside the chip have no fixed base
    secure: bool = True  # False: addresses of the chip's memories are those of the non-secure state
    on_cpu: tuple[str, ...] = ()  # nodes of the model
    on_npu: tuple[str, ...] = ()
    allow_float: bool = False  # also models without any quantised value
    silicon: str = "composed"  # or "seen": no form whose parts alone were seen
    allow_unproven: bool = False  # also forms that no published program comes near
    npu_mhz: float = 0.0  # 0: as the machine description says
    cpu_mhz: float = 0.0
    flash_mbps: float = 0.0
    verify: bool = True
    seed: int = 0
