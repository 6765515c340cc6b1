"""What `atonc yolo` says: accuracy on both sides, the network, the boxes in C, and where everything is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atonc.delivery.texts import post_text
from atonc.delivery.yolo.getting_started import GettingStarted
from atonc.delivery.yolo.run import YoloNetwork
from atonc.insight.report import compile_text, evaluate_text, quantize_text
from atonc.insight.report import document as doc
from atonc.machine.base.words import count, ms_text


def document(found: YoloNetwork, folder: str, verbose: bool = False) -> doc.Document:
    network = compile_text.document(found.view, verbose=verbose)
    sections = [*network.sections]
    if found.evaluation is not None:
        judged = evaluate_text.document(found.evaluation, "", verbose)
        sections = [doc.Chapter("", judged.sections[0].blocks), *sections]
    if found.post is not None:
        sections.append(post_text.chapter(found.post))
    if found.getting_started is not None:
        sections.append(doc.Chapter("for GettingStarted-ObjectDetection", list(_started(found.getting_started))))
    return doc.Document(
        sections=[doc.Chapter("", [_said(found)]), *sections],
        summary=[*_accuracy(found), *network.summary[:5], doc.SummaryRow("written", folder)],
        data=lambda: _data(found),
        checks=network.checks,
    )


def _said(found: YoloNetwork) -> str:
    model = found.model
    ends = f", cut at {count(len(model.outputs), 'output')} of its heads" if model.outputs else ""
    worst = min(found.quantised.outputs, key=lambda one: one.snr_db)
    classes = f"{count(len(model.names), 'class', 'classes')}, " if model.names else ""
    return (
        f"{doc.short_name(found.quantised.source)}: {model.task}, {classes}{model.side[0]} x {model.side[1]} pixels"
        f"{ends}; int8 is {worst.snr_db:.1f} dB from float in the worst output"
    )


def _started(found: GettingStarted) -> Iterator[str]:
    view, cpu = found.view, len(found.view.compiled.choices.on_cpu)
    time = f"{ms_text(view.cost.latency_ms, 3)} predicted ({view.cost.band.span(view.cost.latency_ms, 3)})"
    yield f"  boxes and scores in one int8 tensor: {time}, {count(cpu, 'layer')} on the CPU; not yet run on a board"
    yield f"  put it into your copy of the application: {found.command}"


def _accuracy(found: YoloNetwork) -> Iterator[doc.SummaryRow]:
    for side, figures in (found.evaluation.sides if found.evaluation is not None else {}).items():
        said = ", ".join(f"{one.name} {evaluate_text.figure_text(one)}" for one in figures[:2])
        yield doc.SummaryRow(side, said)


def _data(found: YoloNetwork) -> dict[str, Any]:
    model = found.model
    return {
        "task": model.task,
        "classes": list(model.names),
        "input": list(model.side),
        "outputs": list(model.outputs),
        "evaluation": found.evaluation.as_dict() if found.evaluation is not None else None,
        "quantised": quantize_text.as_json(found.quantised),
        "network": compile_text.as_json(found.view),
        "post": found.post.as_dict() if found.post is not None else None,
        "files": [str(file) for file in (*found.files, *found.view.files)],
        "notes": list(found.notes),
        "getting_started": _started_data(found.getting_started) if found.getting_started is not None else None,
    }


def _started_data(found: GettingStarted) -> dict[str, Any]:
    return {
        "network": compile_text.as_json(found.view),
        "files": [str(file) for file in (*found.files, *found.view.files)],
        "command": found.command,
    }
