"""Why each layer of a model runs where it runs, as text, page and JSON; with samples also where accuracy is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.doors.serve import form

if TYPE_CHECKING:
    from atonc.insight.explain.types import NetworkView

PAGE, TEXT = "report.html", "explain.txt"
MOST_NOTES = 40


def run(folder: Path, request: Mapping[str, Any], out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes text and page; gives what `atonc explain --json` prints, and the figures of the lists."""
    from atonc.doors.serve.titled import titled_view
    from atonc.doors.verbs.common import compiler_options
    from atonc.doors.verbs.explain import chosen_layers, network_of, text_lines
    from atonc.insight.explain.remedies import peak
    from atonc.insight.report import accuracy_text, explain_text
    from atonc.insight.report.html import html_page
    from atonc.machine.base.disk import write_files

    asked, model = form.parsed(request["options"], form.EXPLAIN), folder / request["model"]
    wanted = compiler_options(asked, verify=False)
    view = titled_view(model, asked, request["title"], verify=False)
    network, known = network_of(view, wanted, asked)
    layers = chosen_layers(network, asked.layer)
    document = explain_text.as_json(network, layers, peak(network), known.levers or ())
    lines = text_lines(network, layers, known, asked)
    if asked.accuracy or request["samples"]:
        from atonc.insight.accuracy.explain import explain_accuracy

        samples = [folder / name for name in request["samples"]]
        found = explain_accuracy(view.compiled, wanted, None, samples, asked.samples, asked.prices)
        report = replace(found, model=view.model)
        network = replace(network, accuracy=report)
        document["accuracy"] = accuracy_text.as_json(report)
        lines = [*lines, "", *accuracy_text.lines(report, verbose=True)]
    write_files(out, {TEXT: ("\n".join(map(str, lines)) + "\n").encode(), PAGE: html_page(network)})
    return document, _figures(network)


def _figures(network: NetworkView) -> dict[str, Any]:
    from atonc.insight.explain.types import span_of
    from atonc.machine.base.words import ms_text, size_text

    on_cpu = [layer for layer in network.layers if layer.on == "cpu"]
    took = sum(layer.milliseconds for layer in on_cpu)
    tiles = [
        [ms_text(network.latency_ms), f"latency, {network.basis}{span_of(network, 3)}"],
        [size_text(network.memory.ram_bytes), "RAM"],
        [f"{len(on_cpu)} of {len(network.layers)}", f"layers on the CPU, {ms_text(took)}"],
    ]
    if network.limit is not None:
        tiles.append([f"{network.limit.times_practical:.2f}", "times its practical bound"])
    return {"tiles": tiles, "notes": list(network.notes[:MOST_NOTES])}
