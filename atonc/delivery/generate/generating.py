"""`atonc generate` and `atonc analyze`: compile, weigh, judge by the user's gates, write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.compare.inputs import table_rows
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.compile_view import analyze as analyze  # whoever generates analyzes first
from atonc.compiler.request.options import Gates
from atonc.insight.report import compile_text
from atonc.insight.report.document import lines
from atonc.machine.base import progress
from atonc.machine.base.about import __version__
from atonc.machine.base.build_folder import REPORTS, Trees, network_build, write_beside, write_whole
from atonc.machine.base.errors import InputError
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import count, ms_text
from atonc.machine.cost.network import machine_row
from atonc.machine.hw import four_bits
from atonc.machine.hw.dma import CHANNEL
from atonc.machine.hw.safety.evidence.board_file import saved_row

if TYPE_CHECKING:  # what only files need is imported by who writes them: `analyze` does without
    from atonc.compiler.emit.c.network import CNetwork
    from atonc.insight.explain.actions import TriedOption


def judged(gates: Gates, view: CompileView) -> list[CheckResult]:
    """Every gate that was asked for."""
    return [CheckResult(option, holds, says) for option, asked, holds, says in _gates(gates, view) if asked]


def broken(gates: Gates, view: CompileView) -> list[str]:
    """A sentence for every gate that does not hold."""
    return [gate.says for gate in judged(gates, view) if not gate.holds]


def keeps(gates: Gates, tried: TriedOption) -> bool:
    """Whether an option that is offered stays within what the user accepts."""
    before, after = tried.before, tried.after
    return after.ram_bytes <= (gates.max_ram or after.ram_bytes) and not (gates.no_cpu and after.cpu_ms > before.cpu_ms)


def _gates(gates: Gates, view: CompileView) -> Iterator[tuple[str, float, bool, str]]:
    """Option, what it asks for, whether it holds, and in words."""
    memory, cost = view.memory, view.cost
    on_cpu = compile_text.counts(view.compiled.program.steps)["cpu"]
    kinds = ", ".join(sorted({reason.op for reason in view.compiled.choices.reasons})) or "none"
    runs = f"{count(on_cpu, 'operator')} {'runs' if on_cpu == 1 else 'run'} on the CPU ({kinds})"
    time = f"{ms_text(cost.latency_ms, 3)} ({cost.band.span(cost.latency_ms, 3)})"
    live, spilled = memory.activations_bytes, sum(memory.outside.values())
    yield (
        *("--max-ram", gates.max_ram, memory.ram_bytes <= gates.max_ram),
        f"{memory.ram_text}, --max-ram allows {gates.max_ram:,}",
    )
    yield (
        *("--max-activations", gates.max_activations, live <= gates.max_activations),
        f"activations take {live:,} bytes, --max-activations allows {gates.max_activations:,}",
    )
    yield (
        *("--max-latency", gates.max_latency, cost.latency_ms <= gates.max_latency),
        f"latency is {time}, --max-latency allows {gates.max_latency:g} ms",
    )
    yield (
        *("--max-energy", gates.max_energy, cost.energy.uj.likely <= gates.max_energy),
        f"energy is {cost.energy}, estimated; --max-energy allows {gates.max_energy:g} uJ of core and memories",
    )
    yield "--no-cpu", gates.no_cpu, not on_cpu, f"{runs}, --no-cpu allows none"
    yield (
        *("--no-spill", gates.no_spill, not spilled),
        f"{spilled:,} bytes of activations and states lie outside the chip, --no-spill allows none",
    )


def c_network(view: CompileView) -> CNetwork:
    """The program with everything that C files say about it."""
    from atonc.compiler.emit.c.network import CNetwork, Cycles

    cycles = {
        step.number: Cycles(min(cost.st_cycles, cost.cycles), cost.cycles)
        for step, cost in zip(view.compiled.program.steps, view.cost.steps, strict=True)
    }
    channel = view.options.dma_channel
    return CNetwork(
        view.name,
        view.compiled.written,
        view.compiled.graph,
        view.board.pools,
        model=view.model,
        tool=f"atonc {__version__}",
        epoch_controller=view.options.epoch_controller,
        channels_first=_channels_first(view),
        cycles=cycles,
        dma_channel=CHANNEL if channel is None else channel,
    )


def _channels_first(view: CompileView) -> frozenset[str]:
    """Inputs and outputs keep the order of the model, unless the user wants another one."""
    source, graph, options = view.compiled.source, view.compiled.graph, view.options
    own = any(op.attrs.get("layout") == "NCHW" for op in source.ops)
    found = set[str]()
    for edges, position in (
        (graph.inputs, options.inputs_channel_position),
        (graph.outputs, options.outputs_channel_position),
    ):
        if position == "chfirst" or (own and position != "chlast"):
            found |= set(edges)
    return frozenset(found)


def page_name(name: str) -> str:
    return "report.html" if name == "network" else f"{name}_report.html"


def files_of(
    view: CompileView, with_hex: bool = False, with_stai: bool = False, shared_kernels: bool = False, runtime: str = ""
) -> Mapping[str, bytes]:
    """File name -> contents. `runtime`: the release of LL_ATON that ST's packager shall name, if not the newest."""
    from atonc.compiler.emit import c_info, write
    from atonc.compiler.emit.c.files import files
    from atonc.insight.explain import saved
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report import generate_report
    from atonc.insight.report.html import html_page

    progress.stage("making the files")
    program, name = view.compiled.written, view.name
    if with_hex and program.encrypted:
        raise InputError(
            "--encrypt-weights does not go with memory images as Intel HEX",
            rule="the board encrypts the .raw image, and the .hex file would keep the weights in plain",
            remedy=f"make the .hex from the encrypted image: objcopy --change-addresses {program.encrypted.base:#x}",
        )
    described = write.description(program, view.compiled.graph, name) | {"model": view.model, "board": view.board.name}
    described |= machine_row(view.compiled.target.machine) | saved_row(view.compiled.target.trust.board)
    described |= four_bits.saved_row(program.four_bits)
    if rows := table_rows(view.compiled.source):
        described["table_rows"] = rows
    for step, costs in zip(described["steps"], compile_text.step_data(view), strict=True):
        step.update(costs)
    described["cpu_ops"] = list(map(compile_text.reason_data, view.compiled.choices.reasons))
    progress.stage("making the files", 1, 4)
    picture = network_view(view)
    described |= saved.rows(picture)
    progress.stage("making the files", 2, 4)
    report = "\n".join(lines(compile_text.report(view))) + "\n"
    network = c_network(view)
    network = replace(network, runtime=runtime or network.runtime)
    firmware = files(network, with_hex, with_stai, view.macs, shared_kernels)
    progress.stage("making the files", 3, 4)
    return {
        f"{name}_program.s": write.assembly(program, name).encode(),
        **firmware,
        f"{name}_c_info.json": write.to_json(c_info.document(view, network, firmware)),
        f"{name}_program.json": write.to_json(described),
        f"{name}_report.txt": report.encode(),
        f"{name}_generate_report.txt": generate_report.text(view, network).encode(),
        page_name(name): html_page(picture),
    }


def generate(
    view: CompileView,
    folder: Path,
    with_hex: bool = False,
    with_stai: bool = False,
    with_reports: bool = True,
    shared_kernels: bool = False,
    runtime: str = "",
) -> CompileView:
    """Makes the files and writes them; the view that comes back names them."""
    return write_build(view, folder, files_of(view, with_hex, with_stai, shared_kernels, runtime), with_reports)


def write_build(
    view: CompileView, folder: Path, files: Mapping[str, bytes], with_reports: bool = True, trees: Trees | None = None
) -> CompileView:
    """All together or none, with folders of layouts (`trees`)."""
    if not with_reports:
        files = {name: content for name, content in files.items() if not name.endswith(REPORTS)}
    return replace(view, files=tuple(map(str, write_whole(folder, files, network_build(view.name), trees))))


def write_reports(view: CompileView, folder: Path) -> CompileView:
    """`analyze -o`: what there is to read, beside whatever the folder holds."""
    kept = {name: content for name, content in files_of(view).items() if name.endswith((*REPORTS, "_c_info.json"))}
    renamed = {name.replace("_generate_report", "_analyze_report"): content for name, content in kept.items()}
    return replace(view, files=tuple(map(str, write_beside(folder, renamed))))
