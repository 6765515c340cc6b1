"""`atonc explain`: where every layer runs, which rules decided so, the remedy and what it brings; `atonc ops`: where
operators run at all, and which rules decide."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import OUTPUT, Options
from atonc.delivery.generate.comparing import is_build
from atonc.doors.verbs.compiling import (
    ModelOptions,
    analyzed,
    compiler_options,
    delegates_reply,
    model_options,
    model_path,
)
from atonc.doors.verbs.parser import SHOWN, Command, arg, flags
from atonc.doors.verbs.reply import CommandReply, file_hash
from atonc.insight.report.document import Chapter, Document
from atonc.machine.base.declare import AGAIN, PLAIN, SEVERAL, Takes, option
from atonc.machine.base.disk import write_file, write_files
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import instead

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.insight.explain.types import LayerView, NetworkView
    from atonc.insight.report.explain_text import Known


LOCAL = Takes(local=True)
LOSSES = "where accuracy is lost"


@dataclass(frozen=True)
class ExplainOptions:
    """How much is explained, and of what."""

    layer: tuple[str, ...] = option(
        (), "--layer --node", PLAIN, "only this layer (repeatable)", metavar="NAME", takes=Takes(many=AGAIN)
    )
    all: bool = option(False, "--all", PLAIN, "every layer with every reason, not the ten costliest")
    prices: bool = option(True, "--no-prices", PLAIN, "do not try options: faster")
    search: bool = option(False, "--search", PLAIN, "programs that the scheduler tried, with cycles", takes=LOCAL)
    terms: bool = option(
        False, "--terms", PLAIN, "glossary: epoch, LSB, hardware confidence, ...; needs no model", takes=LOCAL
    )
    pager: bool = option(
        False, "--pager", PLAIN, "on a terminal, page by page with the program that PAGER names", takes=LOCAL
    )


@dataclass(frozen=True)
class AccuracyOptions:
    """Whether losses are measured, and with what."""

    accuracy: bool = option(False, "--accuracy", LOSSES, "every layer against float, what costs most, actions")
    float: Path | None = option(
        None, "--float", LOSSES, "the float model that it was made from", metavar="FILE", parse=Path, takes=LOCAL
    )
    input: tuple[Path, ...] = option(
        (), "--input", LOSSES, "inputs by name in .npz, or .npy, .csv: real or quantised values; else "
        "synthetic ones", metavar="FILE", parse=Path, takes=Takes(many=SEVERAL, local=True),
    )  # fmt: skip
    samples: int = option(0, "--samples", LOSSES, "at most this many (default all, or 2)", metavar="N", parse=int)
    page: Path | None = option(
        None, "--page", LOSSES, "write the report page with it", metavar="FILE.html", parse=Path, takes=LOCAL
    )


# all that `explain` is asked for: its form in `serve` follows from it
DECLARED = (ModelOptions, Options, ExplainOptions, AccuracyOptions)


def _explain(options: argparse.Namespace) -> CommandReply:
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.insight.report import about_text, explain_text

    if options.terms:
        return CommandReply("terms", about_text.term_document(), loud=True)
    if (found := delegates_reply(options, ExplainOptions, AccuracyOptions)) is not None:
        return found
    if options.accuracy:
        return _accuracy(options)
    if options.search:
        model = model_path(options)
        made = analyzed(model, compiler_options(options), options.name).compiled
        document = explain_text.search_document(made.search, made.decisions)
        return CommandReply("search", document, file_hash(model))
    if options.float or options.input or options.page or options.samples:
        raise InputError("--float, --input, --samples and --page belong to --accuracy", remedy="add --accuracy")
    network, known = _network(options)
    document = explained(network, chosen_layers(network, options.layer), known, options)
    return CommandReply("explain", document, network.reproduce.get(MODEL_HASH))


def explained(network: NetworkView, layers: Sequence[LayerView], known: Known, options: argparse.Namespace) -> Document:
    from atonc.insight.report import explain_text

    if options.layer:
        return explain_text.layer_document(network, layers, known)
    return explain_text.document(network, layers, known, options.all, options.verbose)


def _accuracy(options: argparse.Namespace) -> CommandReply:
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.delivery.generate import preflight
    from atonc.insight.accuracy.explain import explain_accuracy
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report import accuracy_text
    from atonc.insight.report.html import html_page

    preflight.check_file(options.page)
    wanted = compiler_options(options)
    view = analyzed(model_path(options), wanted, options.name)
    found = explain_accuracy(view.compiled, wanted, options.float, options.input, options.samples, options.prices)
    report = replace(found, model=view.model)
    if options.page is not None:
        write_file(options.page, html_page(replace(network_view(view), accuracy=report)))
    return CommandReply("accuracy", accuracy_text.document(report, options.verbose), view.reproduce.get(MODEL_HASH))


def _network(options: argparse.Namespace) -> tuple[NetworkView, Known]:
    """What is to be explained, and what is known of the whole."""
    from atonc.insight.report.explain_text import Known

    place: Path | None = options.positional or options.model
    if place is not None and is_build(place):
        from atonc.compiler.request.target import with_asked_clocks
        from atonc.insight.explain.folder import folder_view

        asked = Options(npu_mhz=options.npu_mhz, cpu_mhz=options.cpu_mhz, flash_mbps=options.flash_mbps)
        name = None if options.name == "network" else options.name
        return folder_view(place, name, lambda machine: with_asked_clocks(machine, asked)), Known(of_folder=True)
    model, wanted = model_path(options), compiler_options(options)
    return network_of(analyzed(model, wanted, options.name), options)


def network_of(view: CompileView, options: argparse.Namespace) -> tuple[NetworkView, Known]:
    """A compilation with the options that were tried, as far as they are asked for: of some layers only their fixes."""
    from atonc.insight.explain.actions import priced
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report.explain_text import Known

    network = network_view(view)
    if not options.prices:
        return network, Known()
    wished = chosen_layers(network, options.layer)
    rules = {one.rule.id for layer in wished for one in layer.decisions} if options.layer else None
    network, tried = priced(view, network, rules)
    return network, Known(tried)


def chosen_layers(network: NetworkView, names: Sequence[str]) -> list[LayerView]:
    if not names:
        return list(network.layers)
    found = []
    for name in names:
        matching = [layer for layer in network.layers if name in (layer.name, *layer.nodes, *layer.outputs)]
        if not matching:
            known = [one for layer in network.layers for one in (layer.name, *layer.nodes)]
            raise InputError(f"no layer is called {name[:80]!r}", where=network.model, remedy=instead(name, known))
        found += matching
    return found


# --------------------------------------------------------------------------------------------------------------- ops

REPORT = "supported_ops.md"


def _ops(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.explain.operators import composed, kind_named, operator_table
    from atonc.insight.report import about_text

    if options.type:
        return _source_operators(options)
    table = operator_table()
    if options.with_report:
        write_files(options.output, {REPORT: "\n".join(about_text.operator_markdown(table)).encode()})
    if options.op:
        found = [info for info in table if info.kind == kind_named(options.op)]
        if not found and (several := composed(options.op)):
            found = [several]
        if not found:
            remedy = instead(options.op.lower(), [info.kind for info in table])
            raise InputError(f"no operator is called {options.op[:60]!r}, or it is not supported", remedy=remedy)
        table = tuple(found)
    return CommandReply("ops", about_text.operator_document(table, options.verbose or bool(options.op)))


def _source_operators(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.explain.operators import source_operators

    if options.type == "keras":
        raise UnsupportedError("Keras models are not read", where="--type", remedy="export the model as TFLite")
    title = {"tflite": "TFLite", "onnx": "ONNX"}[options.type]
    names = source_operators()[title]
    if options.with_report:
        text = "\n".join([f"# {len(names)} operators of {title}", "", *(f"- {name}" for name in names), ""])
        write_files(options.output, {REPORT: text.encode()})
    sections = [Chapter(f"{len(names)} operators found", [", ".join(names)])]
    data = {"type": options.type, "operators": list(names)}
    return CommandReply("ops-list", Document(sections=sections, data=lambda: data))


COMMANDS = (
    Command(
        "explain",
        "why each layer runs where it does, and what to change",
        _explain,
        (model_options(), flags(ExplainOptions), flags(AccuracyOptions), SHOWN),
        (
            "atonc explain model.tflite  # the costliest layers, what to do about each",
            "atonc explain st_ai_output --layer conv2d_3  # of a build of ours or ST's",
            "atonc explain int8.onnx --accuracy --float float.onnx --input samples.npz",
        ),
        "Explains a model, or a folder that atonc or ST's compiler wrote.",
    ),
    Command(
        "ops",
        "the operator table, from the compiler's rules",
        _ops,
        (
            arg("op", nargs="?", metavar="OP", help="one operator with all its rules; conv, CONV_2D or Gemm"),
            arg(
                "--type", "-t", choices=["tflite", "onnx", "keras"],
                help="list what the reader of this format takes, as the format calls it",
            ),
            arg("--with-report", title=OUTPUT, action="store_true", help=f"write the table as markdown into {REPORT}"),
            arg("-o", "--output", title=OUTPUT, type=Path, default=Path("."), metavar="DIR", help="for that"),
            SHOWN,
        ),
        (
            "atonc ops Conv  # one operator with all its rules",
            "atonc supported-ops --type onnx  # every ONNX operator that is read",
        ),
        aliases=("supported-ops",),
    ),
)  # fmt: skip
