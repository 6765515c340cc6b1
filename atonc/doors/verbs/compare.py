"""`atonc compare A B`: two builds side by side. Each is a folder (ours or ST's) or a model to compile."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.request.options import GATES, positive, share
from atonc.doors.verbs import ci
from atonc.doors.verbs.ci import CiOptions
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_declared, add_output_options, add_single, group
from atonc.insight.report.terminal import show
from atonc.machine.base.checks import CheckResult
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.explain.compare import Comparison


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "compare", help="two builds side by side: epochs, cycles, memory, layers, and accuracy on given inputs"
    )
    parser.set_defaults(verb=_compare)
    place = "folder of a build, its C file, or a model; or an application"
    parser.add_argument("a", type=Path, metavar="A", help=f"{place}; with --against also a JSON document")
    parser.add_argument("b", type=Path, metavar="B", nargs="?", help="the same; not with --against")
    parser.add_argument("--input", type=Path, action="append", default=[], metavar="FILE", help="run both on this too")
    add_single(parser, "board", seed="run both on a photo-like input made from this number")
    parser.set_defaults(seed=None)  # None: only what `--input` names is run
    parser.add_argument("--html", type=Path, metavar="FILE", help="write both builds as one page, layers paired")
    gates = group(parser, GATES)
    gates.add_argument("--min-cosine", type=share, default=0.0, metavar="C", help="of every output of A and B")
    gates.add_argument("--max-ratio", type=positive, default=0.0, metavar="R", help="latency of B over that of A")
    baseline = "A is not worse than this document of --json: latency, memory, accuracy"
    gates.add_argument("--against", type=Path, metavar="BASELINE.json", help=baseline)
    allowed = "with --against: so much worse is allowed"
    gates.add_argument("--allow-worse", type=_percent, default=0.0, metavar="PERCENT", help=allowed)
    add_declared(parser, CiOptions)
    add_output_options(parser)


def _percent(text: str) -> float:
    return 0.0 if text.strip("0.") == "" else positive(text)


def _compare(options: argparse.Namespace) -> int:
    if options.against is not None:
        return _against(options)
    if options.b is None:
        raise InputError("one build alone", remedy="name a second one, or a baseline: --against BASELINE.json")
    if any(place.suffix == ".toml" or (place / "app.json").is_file() for place in (options.a, options.b)):
        return _applications(options)
    from atonc.delivery.generate.comparing import CompareInputs, compare_builds
    from atonc.insight.report import compare_text
    from atonc.insight.report.document import lines

    seed = 0 if options.seed is None and options.min_cosine else options.seed
    found = compare_builds(options.a, options.b, options.board, CompareInputs(tuple(options.input), seed))
    if options.html:
        from atonc.insight.report.html import compare_page
        from atonc.machine.base.disk import write_file

        write_file(options.html, compare_page(found))
    if options.json:
        print_document("compare", compare_text.as_json(found))
    elif not options.quiet:
        show(lines(compare_text.document(found, options.verbose)))
    return _judged(options, list(_gates(options, found)))


def _applications(options: argparse.Namespace) -> int:
    """Two applications: figures of the whole and of every network; `--max-ratio` is about the time of a second."""
    given = {"--input": options.input, "--html": options.html, "--min-cosine": options.min_cosine}
    given["--seed"] = options.seed is not None
    if wrong := next((flag for flag, value in given.items() if value), ""):
        raise InputError(f"{wrong} with applications", where=str(options.a), remedy="compare their networks one by one")
    from atonc.delivery.application import comparing

    found = comparing.compare_applications(options.a, options.b)
    if options.json:
        print_document("compare-app", comparing.as_json(found))
    elif not options.quiet:
        show(list(comparing.text_lines(found)))
    ratio = found[0].ratio
    said = f"B runs {ratio or 0:.3f} times as long of every second as A, --max-ratio allows {options.max_ratio:g}"
    gate = CheckResult("--max-ratio", ratio is None or ratio <= options.max_ratio, said)
    return _judged(options, [gate] if options.max_ratio else [])


def _gates(options: argparse.Namespace, found: Comparison) -> Iterator[CheckResult]:
    ratio = found.figures[0].ratio
    if options.max_ratio and ratio is not None:
        said = f"B takes {ratio:.3f} times as long as A, --max-ratio allows {options.max_ratio:g}"
        yield CheckResult("--max-ratio", ratio <= options.max_ratio, said)
    for output in found.outputs if options.min_cosine else ():
        said = f"output {output.a} has cosine {output.cosine:.6f}, --min-cosine asks for {options.min_cosine:g}"
        yield CheckResult(f"--min-cosine of {output.a}", output.cosine >= options.min_cosine, said)


def _judged(options: argparse.Namespace, checks: Sequence[CheckResult]) -> int:
    ci.report(options, "compare", options.b or options.a, checks)
    broken = [check.says for check in checks if not check.holds]
    for sentence in broken:
        print(f"atonc: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def _against(options: argparse.Namespace) -> int:
    from atonc.doors.verbs import baseline

    if options.b is not None:
        raise InputError("two builds and a baseline", remedy="name one build with --against")
    before = baseline.measured(baseline.read_document(options.against), str(options.against))
    now = baseline.measured(_document(options), str(options.a))
    figures = baseline.against(before, now)
    checks = baseline.checks(figures, options.allow_worse)
    same = before.model_sha256 == now.model_sha256
    if options.json:
        print_document("compare-against", baseline.as_json(figures, options.allow_worse, same), now.model_sha256)
    elif not options.quiet:
        show(baseline.lines(checks, same))
    return _judged(options, checks)


def _document(options: argparse.Namespace) -> Mapping[str, Any]:
    """The figures of A: written down, of a folder, or of a model that is compiled and verified."""
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating
    from atonc.delivery.generate.comparing import existing, is_build, network
    from atonc.doors.verbs import baseline
    from atonc.insight.report import compare_text, compile_text

    if options.a.suffix.lower() == ".json" and options.a.is_file():
        return baseline.read_document(options.a)
    if is_build(options.a):
        view = network(options.a)
        return compare_text.side(view) | {"model_sha256": view.reproduce.get(MODEL_HASH)}
    compiled = generating.analyze(existing(options.a), Options(board=options.board))
    return compile_text.as_json(compiled) | {"model_sha256": compiled.reproduce.get(MODEL_HASH)}
