"""`atonc compare A B`: two builds side by side. Each is a folder (ours or ST's) or a model to compile.

`atonc compare A B C ...`, `--history DIR`: many builds in their order, a row for each; also documents of `--json`, of
sweeps too.

`atonc compare A --against BASELINE.json`: is it worse than what was written down before? A baseline is what `--json` of
analyze, generate, explain or evaluate printed; so may be A.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from atonc.compiler.request.options import GATES, Options, positive, share
from atonc.doors.verbs.parser import SHOWN, Command, arg, defaults, flags, single
from atonc.doors.verbs.reply import FORMAT, CiOptions, CommandReply
from atonc.insight.report.document import Block, Chapter, Document, Mark, Marked, Note, SummaryRow, fields_of
from atonc.machine.base.disk import read_file, write_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.insight.explain.compare import Comparison
    from atonc.insight.report.history_text import BuildRow


def _percent(text: str) -> float:
    return 0.0 if text.strip("0.") == "" else positive(text)


def _compare(options: argparse.Namespace) -> CommandReply:
    places: list[Path] = options.builds
    if options.against is not None:
        return _against(options)
    if options.history is not None or len(places) > 2:
        return _history(options)
    if len(places) < 2:
        remedy = "name a second one, a baseline (--against BASELINE.json), or a folder of builds (--history DIR)"
        raise InputError("one build alone" if places else "no build", remedy=remedy)
    a, b = places
    if any(place.suffix == ".toml" or (place / "app.json").is_file() for place in places):
        return _applications(a, b, options)
    from atonc.delivery.generate.comparing import CompareInputs, compare_builds
    from atonc.insight.report import compare_text
    from atonc.insight.report.html import compare_page

    seed = 0 if options.seed is None and options.min_cosine else options.seed
    found = compare_builds(a, b, options.board, CompareInputs(tuple(options.input), seed))
    if options.html:
        write_file(options.html, compare_page(found))
    document = compare_text.document(found, options.verbose, list(_gates(options, found)))
    return CommandReply("compare", document, subject=b)


def _applications(a: Path, b: Path, options: argparse.Namespace) -> CommandReply:
    """Two applications: figures of the whole and of every network; `--max-ratio` is about the time of a second."""
    flags = ("--input", "--html", "--min-cosine", "--seed")
    _refuse(options, "with applications", "compare their networks one by one", *flags)
    from atonc.delivery.application import comparing

    found = comparing.compare_applications(a, b)
    ratio = found[0].ratio
    said = f"B runs {ratio or 0:.3f} times as long of every second as A, --max-ratio allows {options.max_ratio:g}"
    gate = CheckResult("--max-ratio", ratio is None or ratio <= options.max_ratio, said)
    document = comparing.document(found, [gate] if options.max_ratio else [])
    return CommandReply("compare-app", document, subject=b)


def _refuse(options: argparse.Namespace, why: str, remedy: str, *names: str) -> None:
    for flag in names:
        value = getattr(options, flag.removeprefix("--").replace("-", "_"))
        if value is not None if flag == "--seed" else value:
            raise InputError(f"{flag} {why}", remedy=remedy)


# -------------------------------------------------------------------------------------------------------- many builds


def _history(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.report import history_text
    from atonc.insight.report.html.page import document_page

    gates = ("--input", "--seed", "--min-cosine", "--max-ratio")
    _refuse(options, "with more than two builds", "compare two of them", *gates)
    places = [*options.builds, *(_kept(options.history) if options.history is not None else ())]
    rows = [row for place in places for row in _rows(place, options.board)]
    if not rows:
        raise InputError("no build in it", where=str(options.history), remedy="name a folder with build folders in it")
    document = history_text.document(rows)
    if options.html:
        write_file(options.html, document_page(document))
    return CommandReply("compare-history", document, subject=places[-1])


def _kept(folder: Path) -> list[Path]:
    """Build folders and documents of `--json` in it, by name; numbers in names count as such. Or one document."""

    def order(place: Path) -> list[tuple[int, str]]:
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", place.name)]

    if folder.suffix.lower() == ".json" and folder.is_file():
        return [folder]
    if not folder.is_dir():
        remedy = "name the folder that has the builds in it, or the sweep.json of a sweep"
        raise InputError("is no folder and no document", where=str(folder), remedy=remedy)
    found = [place for place in folder.iterdir() if place.suffix == ".json" or _holds_build(place)]
    return sorted(found, key=order)


def _holds_build(place: Path) -> bool:
    return place.is_dir() and any(file.suffix == ".c" or file.name.endswith("c_info.json") for file in place.iterdir())


def _rows(place: Path, board: str) -> Iterator[BuildRow]:
    """A build, or each row of a sweep."""
    from atonc.insight.report.history_text import BuildRow

    found = _document(place, board)
    swept, varied = found.get("rows"), found.get("varied")
    if not isinstance(swept, list) or not isinstance(varied, list):
        return (yield BuildRow(place.stem if place.suffix else place.name, *_history_figures(found, str(place))))
    for row in swept:
        if isinstance(row, dict) and isinstance(figures := row.get("figures"), dict):
            asked = {key: value for key, value in dict(row.get("options") or {}).items() if key in varied and value}
            name = plain(" ".join((str(row.get("model")), *(f"{key}={value}" for key, value in asked.items()))))
            yield BuildRow(name[:_LONG_NAME], *_history_figures({**figures, "memory": figures}, str(place)))


def _history_figures(
    document: Mapping[str, Any], where: str
) -> tuple[Mapping[str, tuple[float, str, bool]], tuple[float, float] | None]:
    """What `--against` compares, flash and the share of the CPU; error bounds of the latency."""
    figures = dict(measured(document, where).figures)
    memory = document.get("memory")
    if isinstance(memory, dict) and _is_number(stored := memory.get("flash_bytes")):
        figures["flash"] = stored, "bytes", False
    waits, cpu_ms, latency = document.get("bound_by"), document.get("cpu_ms"), document.get("latency_ms")
    share = waits.get("cpu", 0.0) if isinstance(waits, dict) else None
    if _is_number(cpu_ms) and _is_number(latency) and latency:
        share = cpu_ms / latency
    if _is_number(share):
        figures["CPU share"] = 100 * share, "%", False
    if _is_number(quality := document.get("outputs_db")):
        figures["accuracy"] = quality, "dB", True
    ends = document.get("latency_low_ms"), document.get("latency_high_ms")
    return figures, (float(ends[0]), float(ends[1])) if _is_number(ends[0]) and _is_number(ends[1]) else None


def _gates(options: argparse.Namespace, found: Comparison) -> Iterator[CheckResult]:
    ratio = found.figures[0].ratio
    if options.max_ratio and ratio is not None:
        said = f"B takes {ratio:.3f} times as long as A, --max-ratio allows {options.max_ratio:g}"
        yield CheckResult("--max-ratio", ratio <= options.max_ratio, said)
    for output in found.outputs if options.min_cosine else ():
        said = f"output {output.a} has cosine {output.cosine:.6f}, --min-cosine asks for {options.min_cosine:g}"
        yield CheckResult(f"--min-cosine of {output.a}", output.cosine >= options.min_cosine, said)


# ------------------------------------------------------------------------------------------------- against a baseline

MAX_BYTES = 64 << 20
_LONG_NAME = 120
_MOST = 1e15  # of any figure
_SAVE = "atonc analyze MODEL --json > BASELINE.json writes one"


@dataclass(frozen=True)
class BaselineFigure:
    """One figure then and now."""

    name: str
    before: float
    now: float
    unit: str
    more_is_better: bool = False

    def worse(self, allowed_percent: float) -> bool:
        """By more than is allowed."""
        lost = self.before - self.now if self.more_is_better else self.now - self.before
        return lost > abs(self.before) * allowed_percent / 100

    @property
    def change_percent(self) -> float | None:
        return 100 * (self.now - self.before) / abs(self.before) if self.before else None

    def __str__(self) -> str:
        change = "" if self.change_percent is None else f" ({self.change_percent:+.2f} %)"
        digits = "," if self.unit == "bytes" else ".6g"
        before, now = (f"{int(v) if self.unit == 'bytes' else v:{digits}}" for v in (self.before, self.now))
        return f"{self.name}: {before} {self.unit} before, {now} now{change}".replace("  ", " ")


@dataclass(frozen=True)
class FigureTable:
    """The figures of a document, by name: value, unit, whether more is better."""

    figures: Mapping[str, tuple[float, str, bool]]
    model_sha256: str | None


def read_document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON document: {str(error)[:200]}", where=str(path), remedy=_SAVE) from None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise InputError("has no format number: not a document of atonc --json", where=str(path), remedy=_SAVE)
    if found["format"] > FORMAT:
        raise InputError(f"has format {found['format']}, known is {FORMAT}", where=str(path), remedy="update atonc")
    return found


def measured(document: Mapping[str, Any], where: str) -> FigureTable:
    figures = dict(_figures(document))
    if wrong := next((name for name, (value, _, _) in figures.items() if not abs(value) < _MOST), ""):
        raise InputError(f"{wrong[:40]} has a value that no figure has", where=where, remedy=_SAVE)
    if not figures:
        raise InputError("has no figures to compare", where=where, remedy=_SAVE)
    sha = document.get("model_sha256")
    return FigureTable(figures, sha if isinstance(sha, str) else None)


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, str, bool]]]:
    from atonc.insight.report.history_text import COSINE

    memory = document.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    for name, value, unit in (
        ("latency", document.get("latency_ms"), "ms"),
        ("energy", document.get("energy_uj") or None, "uJ"),  # 0: not known what its steps do
        ("RAM", memory.get("ram_bytes"), "bytes"),
        ("spilled", memory.get("spilled_bytes"), "bytes"),
        ("weights", memory.get("weights_bytes"), "bytes"),
    ):
        if _is_number(value):
            yield name, (value, unit, False)
    verify = document.get("verify")
    outputs = verify.get("outputs") if isinstance(verify, dict) else None
    cosines = [row.get("cos") for row in outputs or () if isinstance(row, dict)]
    known = [cosine for cosine in cosines if _is_number(cosine)]
    if known and len(known) == len(cosines):
        yield COSINE, (min(known), "", True)
    sides = document.get("figures")
    for side, rows in sides.items() if isinstance(sides, dict) else ():
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and _is_number(row.get("value")):
                yield f"{row.get('name')} of {side}", (row["value"], "", True)


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float)


def shared_figures(before: FigureTable, now: FigureTable) -> tuple[BaselineFigure, ...]:
    """Figures that both have."""
    shared = [name for name in before.figures if name in now.figures]
    if not shared:
        raise InputError("the baseline and what is compared have no figure in common", remedy=_SAVE)
    rows = ((name, before.figures[name], now.figures[name][0]) for name in shared)
    return tuple(BaselineFigure(name, old, new, unit, more) for name, (old, unit, more), new in rows)


def baseline_checks(figures: Sequence[BaselineFigure], allowed_percent: float) -> list[CheckResult]:
    limit = f", {allowed_percent:g} % worse is allowed" if allowed_percent else ""
    return [CheckResult(one.name, not one.worse(allowed_percent), f"{one}{limit}") for one in figures]


def baseline_document(figures: Sequence[BaselineFigure], allowed_percent: float, same_model: bool) -> Document:
    checks = baseline_checks(figures, allowed_percent)
    words = {True: (Mark.GOOD, "ok   "), False: (Mark.ALARM, "WORSE")}
    worse = sum(not check.holds for check in checks)
    verdict = SummaryRow("passed", f"{count(len(checks), 'figure')}, none worse than the baseline", Mark.GOOD)
    if worse:
        verdict = SummaryRow("failed", f"{worse} of {count(len(checks), 'figure')} worse than the baseline", Mark.ALARM)
    blocks: list[Block] = [] if same_model else [Note("the baseline is of another model")]
    blocks += [Marked(*words[one.holds], after=f" {one.says}") for one in checks]
    rows = [
        fields_of(one, "name", "before", "now", "unit", "change_percent") | {"worse": one.worse(allowed_percent)}
        for one in figures
    ]
    data = {"passed": not worse, "same_model": same_model, "figures": rows}
    return Document(sections=[Chapter("", blocks)], summary=[verdict], data=lambda: data, checks=checks)


def _against(options: argparse.Namespace) -> CommandReply:
    if len(options.builds) != 1 or options.history is not None:
        wrong = "two builds and a baseline" if options.builds else "no build"
        raise InputError(wrong, remedy="name one build with --against")
    (place,) = options.builds
    before = measured(read_document(options.against), str(options.against))
    now = measured(_document(place, options.board), str(place))
    same = before.model_sha256 == now.model_sha256
    document = baseline_document(shared_figures(before, now), options.allow_worse, same)
    return CommandReply("compare-against", document, now.model_sha256, subject=place)


def _document(place: Path, board: str) -> Mapping[str, Any]:
    """The figures of a build: written down, of a folder, or of a model that is compiled and verified."""
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.delivery.generate import generating
    from atonc.delivery.generate.comparing import existing, is_build, network
    from atonc.insight.report import compare_text, compile_text

    if place.suffix.lower() == ".json" and place.is_file():
        return read_document(place)
    if is_build(place):
        view = network(place)
        return compare_text.side(view) | {"model_sha256": view.reproduce.get(MODEL_HASH), "bound_by": view.bound_by}
    compiled = generating.analyze(existing(place), Options(board=board))
    return compile_text.as_json(compiled) | {"model_sha256": compiled.reproduce.get(MODEL_HASH)}


_PLACE = "folder of a build, its C file, or a model; or an application"
COMMANDS = (
    Command(
        "compare",
        "builds side by side: two layer by layer, or the history of many",
        _compare,
        (
            arg(
                "builds", type=Path, metavar="BUILD", nargs="*",
                help=f"A, B, and more: {_PLACE}; one with --against; a JSON document with --against or of many",
            ),
            arg("--history", type=Path, metavar="DIR", help="all builds and JSON documents in it; or a sweep.json"),
            arg("--input", type=Path, action="append", default=[], metavar="FILE", help="run both on this too"),
            single("board", seed="run both on a photo-like input made from this number"),
            defaults(seed=None),  # None: only what `--input` names is run
            arg("--html", type=Path, metavar="FILE", help="write a page: two builds layer by layer, many as charts"),
            arg(
                "--min-cosine", title=GATES, type=share, default=0.0, metavar="C", help="of every output of A and B"
            ),
            arg(
                "--max-ratio", title=GATES, type=positive, default=0.0, metavar="R",
                help="latency of B over that of A",
            ),
            arg(
                "--against", title=GATES, type=Path, metavar="BASELINE.json",
                help="A is not worse than this document of --json: latency, memory, accuracy",
            ),
            arg(
                "--allow-worse", title=GATES, type=_percent, default=0.0, metavar="PERCENT",
                help="with --against: so much worse is allowed",
            ),
            flags(CiOptions),
            SHOWN,
        ),
        (
            "atonc compare build_a build_b  # epochs, cycles, memory, layer by layer",
            "atonc compare st_ai_output model.tflite --max-ratio 1.1  # as a gate",
            "atonc compare --history builds --html history.html  # a chart for each figure",
        ),
    ),
)  # fmt: skip
