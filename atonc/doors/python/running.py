"""A compiled network on the emulated chip, for `atonc.run` and `Compilation.run`: inputs in, outputs by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.ir import Array
    from atonc.machine.emu.network import EmulatedNetwork


def run_compiled(compiled: Compiled, inputs: Mapping[str, Any]) -> dict[str, Array]:
    from atonc.compiler.inputs.inputs import compiled_inputs
    from atonc.compiler.verify.emulation import Emulation

    return Emulation(compiled.program, compiled.graph).run(compiled_inputs(compiled, inputs))


def run_loaded(network: EmulatedNetwork, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """A network that was read from its folder."""
    from atonc.compiler.inputs.inputs import network_inputs

    given = network_inputs(network, inputs)
    for index, info in enumerate(network.inputs):
        network.write_input(index, given[info.name])
    for _ in network.run():
        pass
    return {info.name: network.read_output(index) for index, info in enumerate(network.outputs)}
