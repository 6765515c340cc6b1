"""`atonc generate` (also `compile`): a model becomes a verified program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.request.options import Gates, Options
from atonc.doors.verbs import ci, st_options, st_verbs
from atonc.doors.verbs.ci import CiOptions
from atonc.doors.verbs.common import add_model_options, compiler_options, model_path, write_pictures
from atonc.doors.verbs.compile_options import ModelOptions, PictureOptions, StageOptions, WrittenOptions
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import ShownOptions, add_declared, add_output_options, declared_values
from atonc.machine.base.build_folder import network_build
from atonc.machine.base.checks import CheckResult
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.compiler.place.explain import PlacementError
    from atonc.delivery.layouts.layout import FolderLayout
    from atonc.machine.base.build_folder import Trees

# all that `generate` is asked for: its form in `serve` follows from it
DECLARED = (ModelOptions, Options, WrittenOptions, StageOptions, Gates, CiOptions, PictureOptions, ShownOptions)


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    generate = verbs.add_parser(
        "generate",
        aliases=["compile"],
        help="compile a model and write the program",
        description="Compiles a quantised model, verifies the program on the emulator and writes it: C files, programs "
        "of the epoch controller, memory images, reports.",
    )
    generate.set_defaults(verb=_generate)
    add_model_options(generate, st_options.GENERATE, verify=True)
    add_shown(generate, WrittenOptions)


def add_shown(parser: argparse.ArgumentParser, own: type[Any]) -> None:
    """Options of the verbs that compile and show what came of it; `own`: of this one alone."""
    for kind in (own, StageOptions, Gates, CiOptions, PictureOptions):
        add_declared(parser, kind)
    add_output_options(parser, verbosity=True)


def _generate(options: argparse.Namespace) -> int:
    return compile_and_show(options, options.output)


def compile_and_show(options: argparse.Namespace, folder: Path | None) -> int:
    from atonc.delivery.generate import preflight

    model = model_path(options)
    if options.stop_after and not options.dump:
        raise InputError("--stop-after needs --dump", remedy="name a folder for what the stages give")
    preflight.check_reader(model)
    for place in filter(None, (options.output, options.dump)):
        preflight.check_folder(place, model, network_build(options.name) if place == folder else None)
    for file in (options.trace, options.annotate, options.junit, options.sarif):
        preflight.check_file(file)
    layout = _layout(options)
    if (options.relocatable is not None or (layout is not None and layout.image is not None)) and folder is not None:
        preflight.check_compiler()
    from atonc.compiler.compile.pipeline import no_watch
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.compiler.place.explain import PlacementError
    from atonc.delivery.generate import generating
    from atonc.delivery.layouts.every import advised, layout_tree, require_taken, with_layout
    from atonc.insight.report import compile_text
    from atonc.insight.report.compile_text import Dump, Stopped

    wanted = compiler_options(options, options.verify)
    wanted = wanted if layout is None else with_layout(wanted, layout)
    gates = declared_values(Gates, options)
    dump = Dump(options.dump, options.stop_after)
    try:
        view = generating.analyze(model, wanted, options.name, dump if options.dump else no_watch)
    except Stopped:
        return 0
    except PlacementError as error:
        raise with_levers(model, wanted, error) from None
    finally:
        dump.write()
    found = generating.judged(gates, view)
    broken = [gate.says for gate in found if not gate.holds]
    check_image(view, options)
    if layout is not None:
        require_taken(layout, view)
        view = advised(layout, view)
    if folder is not None and not broken:
        trees = {} if layout is None else layout_tree(layout, view, folder, _release(options))
        view = write(view, folder, options, trees)
    if folder is None and options.output is not None and options.report:
        view = generating.write_reports(view, options.output)
    if options.trace or options.annotate:
        from atonc.insight.explain.ours import network_view

        write_pictures(network_view(view), options)
    if options.json:
        data = compile_text.as_json(view) | {"gates": broken}
        print_document("analyze" if folder is None else "generate", data, view.reproduce.get(MODEL_HASH))
    elif options.st:
        st_verbs.show(view, options)
    elif not options.quiet:
        compile_text.print_compiled(view, broken, options.verbose)
    for sentence in broken:
        print(f"atonc: {sentence}", file=sys.stderr)
    ci.report(options, "analyze" if folder is None else "generate", model, [*_verified(view), *found])
    return 1 if broken else 0


def _layout(options: argparse.Namespace) -> FolderLayout | None:
    """The one that `generate` is asked for; other verbs have none."""
    if not getattr(options, "layout", ""):
        return None
    from atonc.delivery.layouts.every import find_layout

    return find_layout(options.layout)


def _verified(view: CompileView) -> list[CheckResult]:
    """What the emulator saw; a program that is wrong stopped before."""
    report = view.compiled.report
    return [CheckResult("verification", True, f"{report.layers} layers within their limits")] if report else []


def check_image(view: CompileView, options: argparse.Namespace) -> None:
    """Whether a relocatable image can be made of it, where one is wanted."""
    if options.relocatable is not None:
        from atonc.delivery.trials import relocating

        relocating.check_pools(view)


def write(view: CompileView, folder: Path, options: argparse.Namespace, trees: Trees | None = None) -> CompileView:
    """The files that were asked for, the relocatable image and the folder of a layout among them, in one step."""
    from atonc.delivery.generate import generating, st_files

    files = _files(view, options)
    reports = options.st.reports if options.st else options.report
    view = generating.write_build(view, folder, files, reports, trees)
    return st_files.write_workspace(view, options.st, files) if options.st else view


def _files(view: CompileView, options: argparse.Namespace) -> Mapping[str, bytes]:
    from atonc.delivery.generate import generating, st_files
    from atonc.delivery.trials import relocating

    with_stai = options.stai or options.c_api == "st-ai"
    runtime = st_verbs.release(options) if options.st else _release(options)
    files = generating.files_of(view, options.hex, with_stai, options.shared_kernels, runtime)
    if options.st:
        files = st_files.named(files, view.name, options.st)
    if options.relocatable is None:
        return files
    asked = relocating.words(options.relocatable)
    return {**files, **relocating.image_files(files, view.name, asked, "" if options.st else runtime)}


def _release(options: argparse.Namespace) -> str:
    """The release of LL_ATON in full, if one was named."""
    from atonc.delivery.reloc.abi import release_named

    return release_named(options.runtime) if options.runtime else ""


def with_levers(model: Path, wanted: Options, error: PlacementError) -> PlacementError:
    """The error with what lives at the worst step, and the levers, each tried."""
    from atonc.compiler.compile.pipeline import read_model
    from atonc.insight.explain.remedies import shortage_lines

    source = read_model(model, wanted)
    error.details = tuple(shortage_lines(source, wanted, error))
    return error
