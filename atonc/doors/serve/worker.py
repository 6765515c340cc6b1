"""What runs in a job's process: `python -m atonc.doors.serve.worker VERB`, a verb of the form or `compare`.

It runs in its folder, reads `request.json` there and prints one JSON object per line (stage or error). A build goes to
`out`, all of it also to `files.zip`, its figures to `summary.json`, and to `result.json` what `atonc generate --json`
would print.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.doors.serve.limits import confine
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, InputError, InternalError, plain

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView

REQUEST, SUMMARY, RESULT, OUT, ARCHIVE = "request.json", "summary.json", "result.json", "out", "files.zip"
PAIR = "compare.html"
MOST_LAYERS = 2000  # of a comparison
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


def main(words: Sequence[str]) -> int:
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    folder = Path.cwd()
    request = json.loads((folder / REQUEST).read_text("utf-8"))
    confine(request["limits"])
    try:
        verbs = {"generate": build, "explain": explain, "evaluate": evaluate, "quantize": quantize, "compare": compare}
        verb = verbs[words[0]]
        verb(folder, request)
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


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def _failed(error: AtoncError, request: Mapping[str, Any]) -> int:
    """Tells the failure as the visitor knows things: not by the names of our copies."""
    from atonc.doors.serve.form import field

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


def _end_with_the_server() -> None:
    """Standard input is a pipe that the server holds; it ends when the server does."""
    while os.read(0, 1 << 12):
        pass
    os.killpg(0, signal.SIGKILL)


# --------------------------------------------------------------------------------------------------------------- build


class Progress:
    """What the stages say of themselves, as a share of the whole that never falls back."""

    def __init__(self, with_samples: bool) -> None:
        self._scale = 0.6 if with_samples else 1.0
        self._share, self._said, self._stage = 0.0, 0.0, ""

    def heard(self, stage: str, done: int, total: int) -> None:
        start, end = STAGES.get(stage, (0.0, 0.0))
        share = self._scale * (start + (end - start) * (done / total if total else 0.0))
        if stage == SAMPLES_STAGE:
            share = self._scale + (1 - self._scale) * (done / total if total else 0.0)
        self._share, now = max(self._share, share), time.monotonic()
        if stage != self._stage or now - self._said > PAUSE_SECONDS:
            self._stage, self._said = stage, now
            say(stage=stage, share=round(self._share, 3))


class Stages:
    """What is being done, and how much of it: how often the work comes back to a stage is not known before."""

    def __init__(self) -> None:
        self._stage, self._said = "", 0.0

    def heard(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage or now - self._said > PAUSE_SECONDS:
            self._stage, self._said = stage, now
            say(stage=stage, share=round(done / total, 3) if total else 0.0)


def build(folder: Path, request: Mapping[str, Any]) -> None:
    from atonc.compiler.request.options import Gates
    from atonc.delivery.generate import generating
    from atonc.doors.serve.form import parsed
    from atonc.doors.serve.titled import titled_view
    from atonc.doors.verbs.flags import declared_values
    from atonc.doors.verbs.generate import check_image, write
    from atonc.insight.report import compile_text

    asked, model = parsed(request["options"]), folder / request["model"]
    with progress.watching(Progress(bool(request["samples"])).heard):
        view = titled_view(model, asked, request["title"], asked.verify)
        broken = generating.broken(declared_values(Gates, asked), view)
        document = compile_text.as_json(view) | {"gates": broken}
        check_image(view, asked)
        write(view, folder / OUT, asked)
        if request["samples"]:
            document["validation"] = _validation(view, model, [folder / name for name in request["samples"]])
    _finish(folder, document, {"summary": summary(document), "report": generating.page_name(view.name)})


def _finish(folder: Path, document: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
    """All files are there: packs them, and writes down what the server tells of the job."""
    files = sorted(path.name for path in (folder / OUT).iterdir() if path.is_file())
    _archive(folder, files)
    sizes = {name: (folder / OUT / name).stat().st_size for name in files}
    (folder / SUMMARY).write_text(json.dumps(_short({**outcome, "files": sizes})), "utf-8")
    (folder / RESULT).write_text(json.dumps({**document, "files": files}, indent=1), "utf-8")


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
        keys = ("samples", "reference", "passed", "complaints", "outputs", "accuracy", "worst_layer", "notes")
        found["validation"] = {key: checked[key] for key in keys if key in checked}
    return found


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value if len(value) <= LONG_TEXT else f"{value[:LONG_TEXT]}...")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


def _archive(folder: Path, files: Sequence[str]) -> None:
    with zipfile.ZipFile(folder / ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in files:
            info = zipfile.ZipInfo(name, _ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, (folder / OUT / name).read_bytes())


# ------------------------------------------------------------------------------------------------- explain, evaluate


def explain(folder: Path, request: Mapping[str, Any]) -> None:
    from atonc.doors.serve import explaining

    with progress.watching(Stages().heard):
        document, figures = explaining.run(folder, request, folder / OUT)
    _finish(folder, document, {"summary": figures, "report": explaining.PAGE})


def evaluate(folder: Path, request: Mapping[str, Any]) -> None:
    from atonc.doors.serve import evaluating
    from atonc.doors.verbs.evaluate import PAGE

    with progress.watching(Stages().heard):
        document, figures = evaluating.run(folder, request, folder / OUT)
    _finish(folder, document, {"summary": figures, "report": PAGE})


# ------------------------------------------------------------------------------------------------------------ quantize


def quantize(folder: Path, request: Mapping[str, Any]) -> None:
    from atonc.doors.serve import quantising

    with progress.watching(Stages().heard):
        document, figures = quantising.run(folder, request, folder / OUT)
    _finish(folder, document, {"summary": figures, "report": quantising.PAGE})


# ------------------------------------------------------------------------------------------------------------- compare


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
