"""What runs in a job's process: `python -m atonc.doors.serve.worker VERB`, a verb of the form or `compare`.

It runs in its folder, reads `request.json` there and prints one JSON object per line (stage or error). A build goes to
`out`, all of it also to `files.zip`, its figures to `summary.json`, and to `result.json` what `atonc generate --json`
would print.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.doors.serve.form import field, parsed
from atonc.doors.serve.limits import confine
from atonc.doors.verbs.compiling import analyzed, compiler_options
from atonc.doors.verbs.parser import declared_values
from atonc.machine.base import progress
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import AtoncError, InputError, InternalError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.insight.evaluating.run import Evaluation
    from atonc.insight.explain.types import NetworkView

REQUEST, SUMMARY, RESULT, OUT, ARCHIVE = "request.json", "summary.json", "result.json", "out", "files.zip"
INT8 = "model_int8.onnx"
PAIR = "compare.html"
MOST_LAYERS = 2000  # of a comparison
MOST_NOTES = 40
LONG_TEXT = 400  # characters: names in models may be longer than any page
PAUSE_SECONDS = 0.1
# where each stage of a compilation begins and ends, as shares that a usual network takes
STAGES = {
    "reading the model": (0.0, 0.05),
    "simplifying the graph": (0.05, 0.15),
    "mapping operators": (0.15, 0.4),
    "placing buffers": (0.4, 0.5),
    "checking every epoch": (0.5, 0.55),
    "running on the emulator": (0.55, 0.7),
    "comparing layers with exact arithmetic": (0.7, 0.85),
    "counting cycles": (0.85, 0.9),
    "making the files": (0.9, 1.0),
}
SAMPLES_STAGE = "comparing with the reference"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # same input, same bytes


@dataclass(frozen=True)
class JobWork:
    """What a job works on: in its folder are the model, the samples and where results go."""

    folder: Path
    request: Mapping[str, Any]
    verb: str

    @property
    def model(self) -> Path:
        return self.folder / str(self.request["model"])

    @property
    def title(self) -> str:
        """The name that the visitor knows the model by; it is no path here."""
        return str(self.request["title"])

    @property
    def samples(self) -> list[Path]:
        return [self.folder / name for name in self.request["samples"]]

    @property
    def out(self) -> Path:
        return self.folder / OUT

    @cached_property
    def options(self) -> argparse.Namespace:
        return parsed(self.request["options"], self.verb)


@dataclass(frozen=True)
class JobOutcome:
    document: Mapping[str, Any]  # what the verb prints with --json
    summary: Mapping[str, Any]  # the figures of the lists
    report: str  # the page among the files


def main(words: Sequence[str]) -> int:
    threading.Thread(target=end_with_the_server, daemon=True).start()
    folder = Path.cwd()
    request = json.loads((folder / REQUEST).read_text("utf-8"))
    confine(request["limits"])
    try:
        if words[0] == "compare":
            compare(folder, request)
        else:
            _run(JobWork(folder, request, words[0]))
    except AtoncError as error:
        return _failed(error, request)
    except (MemoryError, RecursionError) as error:
        what = "needs more memory than a job may take" if isinstance(error, MemoryError) else "is nested too deeply"
        remedy = "give a smaller one, or start the server with a higher --memory-limit"
        return _failed(InputError(f"the model {what}", remedy=remedy), request)
    except OSError as error:
        return _failed(InputError(f"files cannot be written: {error.strerror or error}"), request)
    except Exception as error:
        return _failed(InternalError(f"atonc itself failed: {type(error).__name__}: {str(error)[:300]}"), request)
    return 0


def _run(work: JobWork) -> None:
    """Does the work, packs all files, and writes down what the server tells of the job."""
    verbs = {"generate": build, "explain": explain, "evaluate": evaluate, "quantize": quantize}
    shares = _shares(bool(work.samples)) if work.verb == "generate" else None
    with progress.watching(Progress(shares).heard):
        done = verbs[work.verb](work)
    files = sorted(path.name for path in work.out.iterdir() if path.is_file())
    with zipfile.ZipFile(work.folder / ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in files:
            info = zipfile.ZipInfo(name, _ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, (work.out / name).read_bytes())
    sizes = {name: (work.out / name).stat().st_size for name in files}
    told = {"summary": done.summary, "report": done.report, "files": sizes}
    (work.folder / SUMMARY).write_text(json.dumps(_short(told)), "utf-8")
    (work.folder / RESULT).write_text(json.dumps({**done.document, "files": files}, indent=1), "utf-8")


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def _failed(error: AtoncError, request: Mapping[str, Any]) -> int:
    """Tells the failure as the visitor knows things: not by the names of our copies."""
    model, title = request.get("model", ""), request.get("title", "")
    words = error.as_dict() | field(error.where) | {"details": list(error.details[:40])}
    file, *rest = str(words["where"]).split(", ")
    if model and file in (model, Path(model).stem):
        words["where"] = ", ".join((title, *rest))
    text = json.dumps(_short(words))
    for ours, theirs in ((f"{Path.cwd()}/{model}", title), (f"{Path.cwd()}/", "")):
        text = text.replace(json.dumps(ours)[1:-1], json.dumps(theirs)[1:-1])
    say(error=json.loads(text))
    return 1


def end_with_the_server() -> None:
    """Standard input is a pipe that the server holds; it ends when the server does."""
    while os.read(0, 1 << 12):
        pass
    os.killpg(0, signal.SIGKILL)


# ------------------------------------------------------------------------------------------------------------ progress


class Progress:
    """What the stages say of themselves. Where each stands in the whole is known (`shares`), that share never falls
    back; else it is the share of the stage: how often the work comes back to one is not known before."""

    def __init__(
        self, shares: Mapping[str, tuple[float, float]] | None = None, tell: Callable[..., object] = say
    ) -> None:
        self._shares, self._tell = shares, tell
        self._share, self._said, self._stage = 0.0, 0.0, ""

    def heard(self, stage: str, done: int, total: int) -> None:
        share = done / total if total else 0.0
        if self._shares is not None:
            start, end = self._shares.get(stage, (0.0, 0.0))
            share = self._share = max(self._share, start + (end - start) * share)
        now = time.monotonic()
        if stage != self._stage or now - self._said > PAUSE_SECONDS:
            self._stage, self._said = stage, now
            self._tell(stage=stage, share=round(share, 3))


def _shares(with_samples: bool) -> dict[str, tuple[float, float]]:
    scale = 0.6 if with_samples else 1.0
    found = {stage: (scale * start, scale * end) for stage, (start, end) in STAGES.items()}
    return found | {SAMPLES_STAGE: (scale, 1.0)}


# ------------------------------------------------------------------------------------------------------------ the verbs


def build(work: JobWork) -> JobOutcome:
    from atonc.compiler.request.options import Gates
    from atonc.delivery.generate import generating
    from atonc.doors.verbs.generate import check_image, write
    from atonc.insight.report import compile_text

    asked = work.options
    view = analyzed(work.model, compiler_options(asked, asked.verify), asked.name, title=work.title)
    document = compile_text.as_json(view) | {"gates": generating.broken(declared_values(Gates, asked), view)}
    check_image(view, asked)
    write(view, work.out, asked)
    if work.samples:
        document["validation"] = _validation(view, work.model, work.samples)
    return JobOutcome(document, summary(document), generating.page_name(view.name))


def _validation(view: CompileView, model: Path, files: Sequence[Path]) -> dict[str, Any]:
    from atonc.compiler.inputs.inputs import read_labels, read_samples
    from atonc.insight.report import validate_text
    from atonc.insight.validating import validating
    from atonc.insight.validating.references import References

    begins_later = bool(view.options.cut_inputs or view.options.cut_input_layers)
    with References(model, exact_only=begins_later) as references:
        samples = read_samples(view.compiled.source, files, None)
        wanted = validating.Wanted(read_labels(files))
        found = validating.validate(references, view.compiled, samples, wanted)
    return validate_text.as_json(found)


def summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the lists; everything else is in the result."""
    memory, checked = document["memory"], document.get("validation")
    band = ("latency_low_ms", "latency_high_ms", "expected_error")
    kept = ("latency_ms", *band, "energy_uj", "cycles", "st_cycles", "macs", "epochs", "seconds", "verify", "board")
    counted = {key: size for key, size in memory.items() if key.endswith("_bytes")}
    cpu = [{key: row[key] for key in ("node", "op", "rule", "seen", "remedy")} for row in document["cpu_ops"]]
    found = {key: document[key] for key in kept} | counted
    found["gates"], found["notes"] = document["gates"][:20], document["notes"][:40]
    found["cpu_ops"], found["cpu_count"] = cpu[:50], len(cpu)
    if checked:
        keys = ("samples", "reference", "passed", "verdict", "complaints", "outputs", "accuracy", "worst_layer")
        found["validation"] = {key: checked[key] for key in (*keys, "notes") if key in checked}
    return found


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value if len(value) <= LONG_TEXT else f"{value[:LONG_TEXT]}...")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


def explain(work: JobWork) -> JobOutcome:
    """Why each layer of a model runs where it runs, as text and page; with samples also where accuracy is lost."""
    from atonc.doors.verbs.explain import chosen_layers, explained, network_of
    from atonc.insight.accuracy.explain import explain_accuracy
    from atonc.insight.report import accuracy_text, explain_text
    from atonc.insight.report.document import lines
    from atonc.insight.report.html import html_page

    asked = work.options
    wanted = compiler_options(asked)
    view = analyzed(work.model, wanted, asked.name, title=work.title)
    network, known = network_of(view, asked)
    layers = chosen_layers(network, asked.layer)
    document = explain_text.as_json(network, layers, known)
    said = lines(explained(network, layers, known, asked))
    if asked.accuracy or work.samples:
        found = explain_accuracy(view.compiled, wanted, None, work.samples, asked.samples, asked.prices)
        report = replace(found, model=view.model)
        network = replace(network, accuracy=report)
        document["accuracy"] = accuracy_text.as_json(report)
        said += ["", *lines(accuracy_text.document(report, verbose=True))]
    page = "report.html"
    write_files(work.out, {"explain.txt": ("\n".join(map(str, said)) + "\n").encode(), page: html_page(network)})
    return JobOutcome(document, _explained(network), page)


def _explained(network: NetworkView) -> dict[str, Any]:
    from atonc.insight.report import key_figures

    tiles = [[one.value, f"{one.name}, {one.said}"] for one in key_figures.tiles(network)]
    return {"tiles": tiles, "notes": list(network.notes[:MOST_NOTES])}


def evaluate(work: JobWork) -> JobOutcome:
    """Accuracy on samples with labels that a visitor has sent, in the chip's arithmetic."""
    from atonc.doors.verbs.quantize import EVALUATION, evaluation_pages
    from atonc.insight.evaluating.options import EvaluateOptions
    from atonc.insight.evaluating.run import evaluate as run_evaluation

    asked, title = work.options, work.title
    compiler = compiler_options(asked)
    wanted = replace(declared_values(EvaluateOptions, asked), data=str(work.samples[0]), processes=1)
    found = run_evaluation(work.model, wanted, compiler, work.folder / "scratch")
    found = replace(found, model=title, origin={**found.origin, "model": title, "data": "as sent"})
    document = found.as_dict()
    written = {"evaluation.json": f"{json.dumps(document, indent=1)}\n".encode()}
    write_files(work.out, written | evaluation_pages(found, work.model, compiler, asked.name))
    return JobOutcome(document, _evaluated(found), EVALUATION)


def _evaluated(found: Evaluation) -> dict[str, Any]:
    sides = [(side, figures[0]) for side, figures in (*found.sides.items(), *found.distances.items()) if figures]
    tiles = [
        [f"{figure.value:.4f}", f"{figure.name}, {side} ({figure.low:.4f} to {figure.high:.4f})"]
        for side, figure in sides
    ]
    if found.yardstick:
        tiles.append([str(len(found.changed)), f"answers differ from those of the {found.yardstick} model"])
    notes = [f"{count(found.samples, 'sample')}, metric {found.metric}; 95 % CI in parentheses", *found.notes]
    return {"tiles": tiles[:6], "notes": notes[:MOST_NOTES]}


def quantize(work: JobWork) -> JobOutcome:
    """A float model and samples become an int8 model, which can be compiled as if it had been sent."""
    from atonc.delivery.generate import preflight
    from atonc.doors.verbs.quantize import quantized_pages
    from atonc.insight.quantizing.types import QuantizeOptions
    from atonc.insight.report import quantize_text

    preflight.check_packages("onnx", "onnxruntime", extra="quantize")
    from atonc.insight.quantizing.run import quantize as run_all

    settings, page, samples = declared_values(QuantizeOptions, work.options), "quantize.html", work.samples[0]
    found = replace(run_all(work.model, samples, settings), source=work.title)
    write_files(work.out, {INT8: found.model})
    write_files(work.out, quantized_pages(found, (work.model, samples, work.out / INT8), settings, page))
    document = quantize_text.as_json(found)
    kept = {key: document[key] for key in ("samples", "split", "accuracy")}
    told = {**kept, "chosen": found.chosen.as_dict(), "notes": document["notes"][:MOST_NOTES]}
    return JobOutcome(document, told, page)


def compare(folder: Path, request: Mapping[str, Any]) -> None:
    from atonc.insight.explain.compare import compare as pair
    from atonc.insight.explain.folder import folder_view
    from atonc.insight.report import compare_text
    from atonc.insight.report.html import compare_page

    a, b = (folder_view(Path(place)) for place in request["builds"])
    found = pair(a, b)
    document = compare_text.as_json(found)
    document["layers"] = document["layers"][:MOST_LAYERS]
    (folder / RESULT).write_text(json.dumps(document), "utf-8")
    (folder / PAIR).write_bytes(compare_page(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
