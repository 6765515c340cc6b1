"""What is shown of an ExecuTorch program (.pte): of a run the outputs, of the file its calls and what every delegate of
ours takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atonc.compiler.ir import Array
from atonc.delivery.texts.load_text import VIRTUAL_TIMES, time_lines
from atonc.delivery.trials.loading import EpochTime
from atonc.delivery.trials.pte_file import PteProgram
from atonc.delivery.trials.pte_running import InstalledDelegate, PteRunner
from atonc.insight.report.document import Chapter, Document, fields_of
from atonc.insight.runs.runs import digest
from atonc.machine.base.words import count, listed, size_text
from atonc.machine.hw.machine import stm32n6


def of_run(runner: PteRunner, outputs: Mapping[str, Array]) -> Document:
    program = runner.program
    found = [
        {"name": name, "type": value.dtype.name, "shape": list(value.shape), "sha256": digest(value)}
        for name, value in outputs.items()
    ]
    data = {
        "file": str(runner.file),
        "delegate_calls": len(program.calls) - len(program.beside),
        "other_operators": list(program.beside),
        "outputs": found,
    }
    said = [_calls(program), *(f"output {name}: {value.dtype.name} {tuple(value.shape)}, sha256 {digest(value)}"
                               for name, value in outputs.items())]  # fmt: skip
    return Document(sections=[Chapter("", said)], data=lambda: data)


def _calls(program: PteProgram) -> str:
    ours = f"{count(len(program.calls) - len(program.beside), 'call')} of delegates for the NPU, on the virtual board"
    if not program.beside:
        return f"{ours} with our loader"
    names = listed(sorted(set(program.beside)))
    return f"{ours}; {count(len(program.beside), 'call')} of ExecuTorch's kernels: {names}"


def of_delegates(
    program: PteProgram, delegates: Sequence[InstalledDelegate], times: Sequence[Sequence[EpochTime]]
) -> Document:
    mhz = stm32n6().clocks.cpu_mhz
    rows = [_data(one, epochs, mhz) for one, epochs in zip(delegates, times, strict=True)]
    calls = [
        {"operator": call.operator, "delegate": call.delegate, "values": list(call.values)} for call in program.calls
    ]
    edges = {
        side: [fields_of(program.tensors[k], "type=dtype", "shape") for k in values]
        for side, values in (("inputs", program.inputs), ("outputs", program.outputs))
    }
    chapters = [Chapter("", list(_program(program)))]
    for k, (one, epochs, row) in enumerate(zip(delegates, times, rows, strict=True)):
        chapters.append(Chapter("", list(_delegate(k, one, epochs, row, mhz))))
    return Document(sections=chapters, data=lambda: {**edges, "calls": calls, "delegates": rows})


def _data(one: InstalledDelegate, epochs: Sequence[EpochTime], mhz: float) -> dict[str, Any]:
    context = one.image.context
    return {
        "bytes": one.size_bytes,
        "image_bytes": len(one.image.data),
        "weights_bytes": context.params_bytes,
        "activations_bytes": context.activations_bytes,
        "external_ram_bytes": context.ext_ram_bytes,
        "tables_bytes": one.image.xip_bytes,
        "runtime": context.runtime,
        "memories": [fields_of(pool, "name", "destination", "size_bytes") for pool in one.image.pools if pool.name],
        "latency_ms": sum(e.pre + e.npu + e.post for e in epochs) / mhz / 1e3,
        "epochs": [fields_of(e, "first", "last", "kind", "pre", "npu", "post") for e in epochs],
    }


def _program(program: PteProgram) -> Iterator[str]:
    for side, values in (("inputs", program.inputs), ("outputs", program.outputs)):
        yield f"{side}: {', '.join(str(program.tensors[k]) for k in values)}"
    for number, call in enumerate(program.calls):
        by = "ExecuTorch's kernels" if call.delegate is None else f"the NPU: delegate {call.delegate}"
        yield f"call {number}: {call.operator}, by {by}"


def _delegate(
    number: int, one: InstalledDelegate, epochs: Sequence[EpochTime], row: Mapping[str, Any], mhz: float
) -> Iterator[str]:
    inner = ((one.edges.inputs.inputs, "in"), (one.edges.outputs, "out"))
    sides = [f"{info.type.lower()} {'x'.join(map(str, info.shape))} {way}" for infos, way in inner for info in infos]
    yield f"delegate {number}: {size_text(one.size_bytes)} in the file; {', '.join(sides)}"
    yield (
        f"weights {size_text(row['weights_bytes'])}, activations {size_text(row['activations_bytes'])}, external RAM "
        f"{size_text(row['external_ram_bytes'])}, tables of the loader {size_text(row['tables_bytes'])}"
    )
    for pool in row["memories"]:
        place = f" from {pool['destination']:#010x}" if pool["destination"] else ""
        yield f"memory {pool['name']}: {size_text(pool['size_bytes'])}{place}"
    yield VIRTUAL_TIMES
    yield from time_lines(epochs, mhz)
