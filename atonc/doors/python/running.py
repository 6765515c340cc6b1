"""A compiled network on the emulated chip, for `atonc.run` and `Compilation.run`: inputs in, outputs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.inputs.inputs import Shapes
    from atonc.compiler.ir import Array
    from atonc.machine.emu.network import EmulatedNetwork

Outputs = dict[str, "Array"]


def run_compiled(compiled: Compiled, inputs: Mapping[str, Any]) -> Outputs:
    from atonc.compiler.inputs.inputs import compiled_inputs
    from atonc.compiler.verify.emulation import Emulation

    emulation, graph = Emulation(compiled.program, compiled.graph), compiled.graph
    shapes = {name: graph.tensors[name].shape for name in graph.inputs}
    return _each(shapes, inputs, lambda sample: emulation.run(compiled_inputs(compiled, sample)))


def run_loaded(network: EmulatedNetwork, inputs: Mapping[str, Any]) -> Outputs:
    """A network that was read from its folder."""
    from atonc.machine.emu.tensors import io_shape

    shapes = {info.name: io_shape(info) for info in network.inputs}
    return _each(shapes, inputs, lambda sample: _run_one(network, sample))


def _run_one(network: EmulatedNetwork, inputs: Mapping[str, Any]) -> Outputs:
    from atonc.compiler.inputs.inputs import network_inputs

    given = network_inputs(network, inputs)
    for index, info in enumerate(network.inputs):
        network.write_input(index, given[info.name])
    for _ in network.run():
        pass
    return {info.name: network.read_output(index) for index, info in enumerate(network.outputs)}


def _each(shapes: Shapes, inputs: Mapping[str, Any], run: Callable[[Mapping[str, Any]], Outputs]) -> Outputs:
    """One sample, or those of a batch one after the other."""
    from atonc.compiler.inputs.inputs import joined, samples_of
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base import progress

    samples = samples_of(shapes, inputs) if isinstance(inputs, Mapping) else None
    if samples is None:
        return run(inputs)
    found = []
    with in_notebook():
        for number, sample in enumerate(samples):
            progress.stage("running", number, len(samples))
            found.append(run(sample))
    return joined(found)
