"""What was built: `atonc run` on the emulator (a folder, the file of `--layout tflite`, or a .pte), `atonc view` its
report in the browser, `atonc disasm` and `atonc asm` its epoch-controller programs to text and back."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from atonc.delivery.generate.comparing import existing, is_build, network
from atonc.doors.verbs.compiling import PictureOptions, write_pictures
from atonc.doors.verbs.parser import SHOWN, Command, arg, declared_values, flags
from atonc.doors.verbs.reply import CommandReply, build_hash, file_hash, progress
from atonc.insight.report.document import Chapter, Document
from atonc.insight.runs.run_options import RunOptions
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.words import count, port, shell

if TYPE_CHECKING:
    from atonc.compiler.ir import Graph
    from atonc.machine.emu.files.types import CompiledNetwork


def _run(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight

    if options.directory.suffix.lower() in _FILES and not options.directory.is_dir():
        return _run_file(options)
    if options.directory.suffix.lower() in (".onnx", ".pt2") and not options.directory.is_dir():
        raise InputError(
            "is a model",
            where=str(existing(options.directory)),
            rule="run takes what was built: a folder with network.c, the .tflite of --layout tflite, or a .pte",
            remedy=f"{shell('generate', options.directory, '-o', 'build')}, then {shell('run', 'build')}",
        )
    observe = bool(options.dump or options.compare or options.layers)
    wanted = declared_values(RunOptions, options, directory=options.directory, observe=observe)
    folder = wanted.dump
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("exists and is not an empty folder", where=str(folder), remedy="name a new folder")
    for file in (wanted.output, wanted.save_input):
        preflight.check_file(file)
    from atonc.insight.explain import folder as folder_view
    from atonc.insight.report import run_text
    from atonc.insight.runs import programs, runs
    from atonc.machine.cost import network as costs
    from atonc.machine.emu.files.c_info import fitting_c_info

    reference = runs.read_reference(wanted.compare) if wanted.compare else None
    graph = runs.read_model(wanted.layers, wanted.custom) if wanted.layers else None
    result = runs.run(wanted, progress(options))
    differences = runs.compare_run(result, reference) if reference is not None else None
    layers = runs.layer_report(result, _as_built(graph, wanted, result.net.network)) if graph is not None else None
    violations = programs.check_run(result) if wanted.check else None
    if wanted.save_input:
        runs.save_arrays(wanted.save_input, result.inputs)
    if wanted.output:
        runs.save_arrays(wanted.output, result.outputs)
    if wanted.dump:
        runs.dump(wanted.dump, result)
    info = fitting_c_info(result.net.network)[0]
    cost, tool = costs.network_cost(result.net, result.steps, info=info), folder_view.tool_of(result.net.network, info)
    view = run_text.RunView(result, cost, differences, layers, violations, tool, wanted.hop)
    code = 1 if differences is not None and any(d.different for d in differences) else 0
    return CommandReply("run", run_text.document(view, options.verbose), build_hash(wanted.directory), code=code)


def _as_built(graph: Graph, wanted: RunOptions, network: CompiledNetwork) -> Graph:
    """The model as buffers hold it: in a build of ours, passes may have changed the order of channels."""
    from atonc.compiler.compile.pipeline import read_model
    from atonc.compiler.compile.reproduce import options_of
    from atonc.compiler.passes import order
    from atonc.insight.explain.saved import read_asked

    asked = read_asked(network.directory, network.stem)
    if asked is None or wanted.layers is None:
        return graph
    built = replace(options_of(asked.options), custom=wanted.custom)
    return order.run(read_model(wanted.layers, built), built)


_OF_FOLDERS = ("name", "weights", "blobs", "frames", "hop", "until", "dump", "compare", "layers")
_FILES = {
    ".tflite": "it is run as a whole: the custom operator on the virtual board, the rest with LiteRT",
    ".pte": "it is run as a whole: delegates on the virtual board, the rest with ExecuTorch's kernels",
}


def _run_file(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight
    from atonc.delivery.texts import pte_text, tflite_text
    from atonc.delivery.trials.pte_running import PteRunner
    from atonc.delivery.trials.tflite_running import TfliteRunner
    from atonc.insight.runs import runs

    kind = options.directory.suffix.lower()
    asked = [f"--{name}" for name in _OF_FOLDERS if getattr(options, name)]
    if asked or options.until is not None:
        raise InputError(
            f"{', '.join(asked) or '--until'} with a {kind} file",
            rule=_FILES[kind],
            remedy="run the build folder that the file lies in" if kind == ".tflite" else "leave it out",
        )
    for file in (options.output, options.save_input):
        preflight.check_file(file)
    file = existing(options.directory)
    with TfliteRunner(file) if kind == ".tflite" else PteRunner(file) as runner:
        inputs = runs.choose_from(runner.edges, options.inputs, options.seed)
        outputs = runner.run(inputs)
        if isinstance(runner, TfliteRunner):
            document = tflite_text.document(runner, outputs)
        else:
            document = pte_text.of_run(runner, outputs)
    for path, arrays in ((options.save_input, inputs), (options.output, outputs)):
        if path is not None:
            runs.save_arrays(path, arrays)
    return CommandReply("run", document, file_hash(options.directory))


def _disasm(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.report import run_text
    from atonc.insight.runs import programs

    found = programs.read_programs(options.file)
    chosen = [p for p in found if options.blob in (None, p.name)]
    if not found:
        raise InputError("no program of the epoch controller", where=str(options.file), rule="NAME_ecblobs.h has them")
    if not chosen:
        names = ", ".join(p.name for p in found)
        raise InputError(f"no program is called {options.blob}", where=str(options.file), remedy=f"choose from {names}")
    violations = programs.check_programs(chosen) if options.check else []
    checked = {"violations": [run_text.violation_data(v) for v in violations]} if options.check else {}
    text = ""
    if options.epochs:
        for program in chosen:
            decoded = [line for epoch in program.epochs() for line in run_text.epoch_lines(epoch)]
            text += "".join(f"{line}\n" for line in (f"program {program.name}", *decoded))
    elif not options.check and not options.json:
        text = "".join((f";; {p.name}\n" if len(chosen) > 1 else "") + p.text() for p in chosen)

    def data() -> dict[str, Any]:
        found = [{"name": p.name, "epochs": [run_text.epoch_data(e) for e in p.epochs()]} for p in chosen]
        return {"file": options.file.name, "programs": found, **checked}

    said = run_text.violation_lines(violations, sum(len(p.epochs()) for p in chosen)) if options.check else []
    code = 1 if any(v.severity == "violation" for v in violations) else 0
    return CommandReply("disasm", Document(sections=[Chapter("", said)], data=data), raw=text, code=code)


def _asm(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.runs import programs

    container = programs.assemble_file(options.file)
    target = options.output or options.file.with_suffix(".bin")
    if not options.name.isidentifier():
        raise InputError(f"{options.name!r} is not a C identifier", remedy="name the array with letters and digits")
    text = programs.to_header(container, options.name).encode()
    write_file(target, text if target.suffix == ".h" else programs.to_binary(container))
    return CommandReply(raw=f"{target}: {count(len(container.blob.program), 'word')}\n")


def _view(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight

    for file in (options.save, options.trace, options.annotate):
        preflight.check_file(file)
    from atonc.insight.report.html import html_page

    if not is_build(options.place) and not (options.save or options.trace or options.annotate):
        shown = OpenedModel(existing(options.place))
        Thread(target=shown.compile, daemon=True).start()
        _serve(shown, options.port)
        return CommandReply()
    found = network(options.place)
    write_pictures(lambda: found, options)
    page = html_page(found)
    if options.save:
        write_file(options.save, page)
        return CommandReply(raw=f"wrote {options.save}\n")
    _serve(ShownPage(page), options.port)
    return CommandReply()


class ShownPage:
    def __init__(self, page: bytes) -> None:
        self.page = page
        self.state: dict[str, Any] = {"state": "done"}


class OpenedModel(ShownPage):
    """A model as its file has it, at once; `compile` makes the report of it."""

    def __init__(self, model: Path) -> None:
        from atonc.compiler.frontends.read import read
        from atonc.insight.explain.unbuilt import model_view
        from atonc.insight.report.html import html_page

        super().__init__(html_page(model_view(model.name, read(model))))
        self.model, self.state = model, {"state": "compiling", "stage": ""}

    def compile(self) -> None:
        from atonc.insight.report.html import html_page
        from atonc.machine.base.progress import watching

        def watcher(stage: str, done: int, total: int) -> None:
            self.state = {"state": "compiling", "stage": f"{stage} {done}/{total}" if total else stage}

        try:
            with watching(watcher):
                self.page = html_page(network(self.model))
            self.state = {"state": "done"}
        except AtoncError as error:
            self.state = {"state": "failed", "error": error.as_dict()}
        except Exception as error:  # a bug of ours: the page says so, and the terminal has the traceback
            said = {"what": f"internal error: {type(error).__name__}", "remedy": "report it together with the model"}
            self.state = {"state": "failed", "error": said}
            raise


def _serve(shown: ShownPage, port: int) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = 200, "text/html; charset=utf-8", shown.page
            state = 200, "application/json", json.dumps(shown.state).encode()
            answers = {"/": page, "/report.html": page, "/state": state}
            code, kind, content = answers.get(self.path, (404, "text/plain", b"not found"))
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the terminal shows the address only."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"port {port} cannot be used: {error.strerror}", remedy="name another with --port") from None
    print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
    server.serve_forever()


COMMANDS = (
    Command(
        "run",
        "run a compiled network on the emulator",
        _run,
        (
            arg(
                "directory", type=Path, metavar="DIR",
                help="folder with network.c, its blobs and weights; a file of --layout tflite; or an ExecuTorch "
                "program (.pte) with delegates of ours",
            ),
            flags(RunOptions),
            SHOWN,
        ),
        (
            "atonc run st_ai_output --input photo.png  # also a folder that ST's tool wrote",
            "atonc run st_ai_output --seed 3 --output a.npz --json",
        ),
    ),
    Command(
        "view",
        "the HTML report of a build or a model, served on this machine",
        _view,
        (
            arg(
                "place", type=Path, metavar="DIR",
                help="folder that atonc or ST's compiler wrote, its C file, or a model, which is compiled meanwhile",
            ),
            arg("--port", type=port, default=8000, help="on 127.0.0.1 (default 8000; 0 takes a free one)"),
            arg("--save", type=Path, metavar="FILE.html", help="write the page instead of serving it"),
            flags(PictureOptions),
        ),
        (
            "atonc view model.tflite  # the graph at once, figures as they come",
            "atonc view st_ai_output --save report.html",
        ),
    ),
    Command(
        "disasm",
        "epoch-controller programs to text",
        _disasm,
        (
            arg("file", type=Path, metavar="FILE", help="*_ecblobs.h, a raw blob, a container or a listing"),
            arg("--blob", metavar="NAME", help="only this program of the file"),
            arg("--epochs", action="store_true", help="decoded units, links and buffers per epoch"),
            arg("--check", action="store_true", help="the safety rules; exit 1 on a violation"),
            arg("--json", action="store_true", help="decoded epochs as data"),
        ),
        (
            "atonc disasm st_ai_output/network_ecblobs.h --epochs",
            "atonc disasm network_ecblobs.h --check  # exit code 1: a rule is broken",
        ),
    ),
    Command(
        "asm",
        "assembly text to epoch-controller programs",
        _asm,
        (
            arg("file", type=Path, metavar="FILE", help="assembly text"),
            arg("-o", "--output", type=Path, metavar="FILE", help=".bin (default) or .h"),
            arg("-n", "--name", default="_ec_blob_1", help="array name in a header"),
        ),
        (
            "atonc asm network.s -o network.bin",
            "atonc asm network.s -o network_ecblobs.h -n network  # as an array in C",
        ),
    ),
)  # fmt: skip
