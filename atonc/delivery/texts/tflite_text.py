"""What `atonc run` shows of a file of `--layout tflite`: where its operators ran, and the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.compiler.ir import Array
from atonc.delivery.trials.tflite_running import TfliteRunner
from atonc.insight.report.document import Chapter, Document
from atonc.insight.runs.runs import digest
from atonc.machine.base.words import count, listed


def document(runner: TfliteRunner, outputs: Mapping[str, Array]) -> Document:
    operators = [row.code for row in runner.model.operators if not row.on_npu]
    found = [
        {"name": name, "type": value.dtype.name, "shape": list(value.shape), "sha256": digest(value)}
        for name, value in outputs.items()
    ]
    npu = len(runner.model.operators) - len(operators)
    data = {"file": str(runner.file), "npu_operators": npu, "other_operators": operators, "outputs": found}
    return Document(sections=[Chapter("", list(_lines(npu, operators, outputs)))], data=lambda: data)


def _lines(npu: int, operators: list[str], outputs: Mapping[str, Array]) -> Iterator[str]:
    yield f"{count(npu, 'operator')} for the NPU, on the virtual board with our loader"
    if operators:
        yield f"{count(len(operators), 'operator')} with LiteRT: {listed(sorted(set(operators)))}"
    for name, value in outputs.items():
        yield f"output {name}: {value.dtype.name} {tuple(value.shape)}, sha256 {digest(value)}"
