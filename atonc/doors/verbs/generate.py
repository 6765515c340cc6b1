"""`atonc generate` (also `compile`): a model becomes a verified program; `atonc analyze`: the same without C files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import Gates, Options
from atonc.doors.verbs.compiling import (
    AnalyzeOptions,
    ModelOptions,
    PictureOptions,
    StageOptions,
    WrittenOptions,
    analyzed,
    compiler_options,
    delegates_reply,
    model_options,
    model_path,
    write_pictures,
)
from atonc.doors.verbs.parser import Adds, Command, ShownOptions, declared_values, defaults, flags
from atonc.doors.verbs.reply import CiOptions, CommandReply, file_hash, note
from atonc.insight.evaluating.options import PostOptions
from atonc.machine.base import cache
from atonc.machine.base.build_folder import network_build
from atonc.machine.base.declare import declared, default_of
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.delivery.front_end.own import OwnFrontEnd
    from atonc.delivery.generate.post import PostProcessing
    from atonc.insight.explain.actions import TriedOption
    from atonc.insight.report.document import Document
    from atonc.machine.base.build_folder import Trees

# all that `generate` is asked for: its form in `serve` follows from it
DECLARED = (
    ModelOptions, Options, WrittenOptions, PostOptions, StageOptions, Gates, CiOptions, PictureOptions, ShownOptions
)  # fmt: skip


def _analyze(options: argparse.Namespace) -> CommandReply:
    if (found := delegates_reply(options, AnalyzeOptions, *DECLARED[4:-1])) is not None:
        return found
    if options.pareto:
        return _pareto(options)
    return compiled(options, options.st.folder(options.output) if options.st else None)


def compiled(options: argparse.Namespace, folder: Path | None) -> CommandReply:
    """Compiles, judges, writes; `folder` is None where no C files are wanted."""
    with cache.used(options.cache):
        return _compiled(options, folder)


def _compiled(options: argparse.Namespace, folder: Path | None) -> CommandReply:
    from atonc.delivery.generate import preflight

    model = model_path(options)
    _check_places(model, options, folder)
    layout = None
    if options.layout:
        from atonc.delivery.layouts import every as layouts

        layout = layouts.find_layout(options.layout)
    if (options.relocatable is not None or (layout is not None and layout.image is not None)) and folder is not None:
        preflight.check_compiler()
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.delivery.generate import generating
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report import compile_text
    from atonc.insight.report.compile_text import Dump, Stopped

    wanted = compiler_options(options, options.verify)
    wanted = wanted if layout is None else layouts.with_layout(wanted, layout)
    dump = Dump(options.dump, options.stop_after)
    front_end, wanted = _edges(model, wanted, options, folder)
    try:
        words = getattr(options, "words", ())  # a form has none
        view = analyzed(model, wanted, options.name, dump if options.dump else None, words=words)
    except Stopped:
        return CommandReply()
    finally:
        dump.write()
    if options.verbose and (count := view.compiled.reused):
        results = f"{count} result{'s' * (count != 1)} of former runs"
        note(f"{results} came from the cache (--no-cache works them out anew)", options)
    limits = declared_values(Gates, options)
    gates = generating.judged(limits, view)
    check_image(view, options)
    post = post_processing(view, options)
    if layout is not None:
        layouts.require_taken(layout, view)
        view = layouts.advised(layout, view)
    view = _with_hop(view, front_end)
    advice = _advice(view, limits, options)
    view = replace(view, advice=tuple((one.flags, one.brings) for one in advice))
    if folder is not None and all(gate.holds for gate in gates):
        trees = {} if layout is None else layouts.layout_tree(layout, view, folder, _release(options))
        view = write(view, folder, options, trees, post, front_end)
    if folder is None and options.output is not None and options.report:
        view = generating.write_reports(view, options.output)
    write_pictures(lambda: network_view(view), options)
    document = compile_text.document(view, gates, options.verbose, advice)
    document = _with_edges(document, view, post, front_end)
    if options.st:
        document = replace(document, sections=options.st.sections(view), summary=())
    return CommandReply(
        "analyze" if folder is None else "generate",
        document,
        view.reproduce.get(MODEL_HASH),
        loud=bool(options.st),
        subject=model,
    )


def _check_places(model: Path, options: argparse.Namespace, folder: Path | None) -> None:
    """Whether what is read is there and what is written may be."""
    from atonc.delivery.generate import preflight

    if options.stop_after and not options.dump:
        raise InputError("--stop-after needs --dump", remedy="name a folder for what the stages give")
    preflight.check_reader(model)
    for place in filter(None, (options.output, options.dump)):
        preflight.check_folder(place, model, network_build(options.name) if place == folder else None)
    for file in (options.trace, options.annotate, options.junit, options.sarif):
        preflight.check_file(file)


def _edges(
    model: Path, wanted: Options, options: argparse.Namespace, folder: Path | None
) -> tuple[str | OwnFrontEnd, Options]:
    """The front end, and the network behind it where the model itself begins with it. One for another input, and
    outputs of another family, are told before the long work begins."""
    from atonc.compiler.compile.pipeline import read_model

    front_end: str | OwnFrontEnd = "" if folder is None else options.front_end
    if front_end:
        from atonc.delivery.front_end import of_model
        from atonc.delivery.front_end.fitting import require_fit

        if of_model.is_model(front_end) and Path(options.front_end).resolve() == model.resolve():
            whole = replace(wanted, cut_inputs=())
            front_end = own = of_model.declared(model, lambda path: read_model(path, whole))
            wanted = replace(wanted, cut_inputs=wanted.cut_inputs or (own.tensor,))
        of_model.load(front_end)  # a mistake in the file first
        require_fit(read_model(model, wanted), front_end, own_types=not wanted.input_type)
    if options.post:
        from atonc.delivery.generate.post import require_family

        require_family(read_model(model, wanted), declared_values(PostOptions, options))
    return front_end, wanted


def _with_hop(view: CompileView, front_end: str | OwnFrontEnd) -> CompileView:
    if not front_end:
        return view
    from atonc.delivery.front_end.fitting import with_hop

    return with_hop(view, front_end)


def _with_edges(
    document: Document, view: CompileView, post: PostProcessing | None, front_end: str | OwnFrontEnd
) -> Document:
    """With what stands before and behind the network: a front end, boxes of a detector."""
    if post is not None:
        from atonc.delivery.texts.post_text import with_post

        document = with_post(document, post)
    from atonc.delivery.front_end import fitting

    if front_end:
        return fitting.document_with(fitting.fitted(view, front_end), document)
    return fitting.advised(view.compiled.source, document)


def _advice(view: CompileView, limits: Gates, options: argparse.Namespace) -> tuple[TriedOption, ...]:
    """What to try next, the best first. It is in the files as well, so `--quiet` asks for it too."""
    if options.st:
        return ()
    from atonc.delivery.generate import generating
    from atonc.insight.explain.actions import quick

    kept = partial(generating.keeps, limits)
    # a self-test is of the NPU: a network without it has none
    return quick(view, lambda one: kept(one) and not (options.selftest and one.options.no_npu))


def check_image(view: CompileView, options: argparse.Namespace) -> None:
    """Whether a relocatable image can be made of it, where one is wanted."""
    if options.relocatable is not None:
        from atonc.delivery.trials import relocating

        relocating.check_pools(view)


def post_processing(view: CompileView, options: argparse.Namespace) -> PostProcessing | None:
    """What turns the outputs of a detector into boxes, where it is wanted; raises where they are of another family."""
    wanted = declared_values(PostOptions, options)
    if not wanted.post:
        return None
    from atonc.delivery.generate import post

    return post.post_processing(view, wanted)


def write(
    view: CompileView,
    folder: Path,
    options: argparse.Namespace,
    trees: Trees | None = None,
    post: PostProcessing | None = None,
    front_end: str | OwnFrontEnd = "",
) -> CompileView:
    """The files that were asked for, the relocatable image and the folder of a layout among them, in one step."""
    from atonc.delivery.generate import generating

    with_stai = options.stai or options.c_api == "st-ai"
    runtime = options.st.release(options.runtime) if options.st else _release(options)
    files: Mapping[str, bytes] = generating.files_of(view, options.hex, with_stai, options.shared_kernels, runtime)
    if options.st:
        from atonc.delivery.generate import st_files

        files = st_files.named(files, view.name, options.st)
    if options.selftest:
        from atonc.delivery.generate.selftest import with_selftest

        files = with_selftest(view, files)
    if post is not None:
        from atonc.delivery.generate.post import with_post

        files = with_post(view, files, post)
    if front_end:
        from atonc.delivery.front_end.fitting import with_front_end

        files = with_front_end(view, files, front_end)
    if options.relocatable is not None:
        from atonc.delivery.trials import relocating

        asked = relocating.words(options.relocatable)
        files = {**files, **relocating.image_files(files, view.name, asked, "" if options.st else runtime)}
    reports = options.st.reports if options.st else options.report
    view = generating.write_build(view, folder, files, reports, trees)
    return st_files.write_workspace(view, options.st, files) if options.st else view


def _release(options: argparse.Namespace) -> str:
    """The release of LL_ATON in full, if one was named."""
    from atonc.delivery.reloc.format import release_named

    return release_named(options.runtime) if options.runtime else ""


def _pareto(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight
    from atonc.insight.report import sweep_text
    from atonc.insight.report.html import sweep_page
    from atonc.insight.sweeping.row import pareto
    from atonc.machine.base.disk import write_file

    model = model_path(options)
    preflight.check_reader(model)
    preflight.check_file(options.pareto)
    found = pareto(model, compiler_options(options, options.verify), options.pareto.with_suffix(""))
    write_file(options.pareto, sweep_page(found))
    return CommandReply("pareto", sweep_text.document(found, str(options.pareto)), file_hash(model))


def _options(own: type) -> tuple[Adds, ...]:
    """What the verbs take that compile and show what came of it; `own`: the options of this one alone."""
    return model_options(verify=True), *map(flags, (own, *DECLARED[4 if own is AnalyzeOptions else 3 :]))


COMMANDS = (
    Command(
        "generate",
        "compile a model and write the program",
        lambda options: compiled(options, options.output),
        _options(WrittenOptions),
        (
            "atonc generate model.tflite -o build  # C files, memory images, reports",
            "atonc generate -m m.onnx --st-neural-art default@user_neuralart.json",
        ),
        "Compiles a quantised model, verifies the program on the emulator and writes it: C files, programs "
        "of the epoch controller, memory images, reports.",
        aliases=("compile",),
    ),
    Command(
        "analyze",
        "mapping, memory, latency and verification of a model, without C files",
        _analyze,
        (
            *_options(AnalyzeOptions),
            defaults(hex=False, stai=False, shared_kernels=False, runtime="", layout="", selftest=False, front_end=""),
            defaults(**{member.name: default_of(member) for member, _ in declared(PostOptions)}),
        ),
        (
            "atonc analyze model.tflite  # where every operator runs, memory, latency",
            "atonc analyze model.onnx --max-latency 20 --no-spill --json  # a gate in CI",
        ),
        "What `generate` would give, without its C files; -o writes the reports.",
    ),
)
