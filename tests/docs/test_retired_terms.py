"""Nobody reads a retired term: not in the README, the changelog, the pages, nor in any sentence of the program.

`RETIRED` is the table: what is no longer written, what is written instead, and where the word means something else.
String literals with a blank in them count as sentences; docstrings, comments and identifiers are for developers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from atonc.insight.report.about_text import glossary

ROOT = Path(__file__).parent.parent.parent
# pages that name retired terms on purpose
ABOUT_TERMS = {"docs/wording.md": "the style guide", "docs/glossary.md": "says what the code calls a thing"}
NO_PROSE = {  # names, links, marks and expressions
    ".md": re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|</?picture>"),
}


@dataclass(frozen=True)
class Retired:
    pattern: str
    use: str
    allowed: dict[str, str] = field(default_factory=dict)  # start of a path -> why the word may stand there


STORED = "a name in files of decisions"
CODE = {"docs/architecture.md": "names types and rooms of the code"}
RETIRED = (
    Retired(r"\bcodes? (off|away)\b|\bcodes? from exact|[0-9}] codes\b", "LSB: max error 1 LSB"),
    Retired(
        r"\bbands?\b",
        "error bounds (of a prediction), row tile (of a tensor)",
        CODE | {"atonc/compiler/select/variants.py": STORED, "atonc/compiler/lower/conv/depthwise.py": STORED},
    ),
    Retired(
        r"\bforms?\b",
        "alternative (a choice), NPU configuration (what hardware confidence rates)",
        CODE | {"atonc/doors/serve": "the form of a web page", "docs/serve.md": "the form of a web page"},
    ),
    Retired(
        r"(?<!-)(?<!board )\bevidence\b(?! file|\.json| sha256| \|$)",
        "hardware confidence; source (of a constant)",
        CODE,
    ),
    Retired(r"\bgrade[ds]?\b", "hardware confidence; rates"),
    Retired(r"\bof their room\b|\broom for sums\b", "accumulator headroom 3.48x"),
    Retired(r"\bbound by\b|\bwhat (it|each layer|[0-9a-z]+ epochs) waits? for\b|\bwhat bounds\b", "bottleneck"),
    Retired(r"input values enter the convolvers", "conv input bandwidth"),
    Retired(r"\bown programming\b|registers of short epochs are written", "NPU setup"),
    Retired(r"\bwords of the (epoch controller|program)\b", "command-stream fetch"),
    Retired(r"\b(practical|absolute) bound\b|\bx limit\b", "attainable minimum, theoretical minimum"),
    Retired(r"\blevers?\b|\bremed(y|ies)\b", "action (an option to try), fix (of an error)", CODE),
    Retired(r"\bguessed\b|\ba guess\b", "rough estimate"),
    Retired(r"\btoo far from exact arithmetic\b", "would be 3.0 LSB off (limit 2)"),
    Retired(r"\basked otherwise\b", "options that differ"),
    Retired(r"\bof draws\b", "95 % CI"),
    Retired(r"\ball of it activations\b", "activations only"),
    Retired(r"\b[um]J an inference\b|\) an inference\b", "/inference"),
    Retired(r"\bThree figures\b|\bHow far to trust\b|\bWhat you should see\b", "Key results, Validation status, ..."),
    Retired(
        r"\bpictures?\b",
        "image, figure",
        CODE | {"atonc/delivery/deploy/app_config/vision.py": "a comment of a generated header, whose bytes stay"},
    ),
    Retired(r"\bprocessors?\b", "CPU"),
    Retired(r"\bpublished programs?\b|\bpublic networks?\b", "ST programs", CODE),
    Retired(r"\bno constant of the model has seen\b", "held out from calibration"),
    Retired(r"\bWhat to do:", "fix:"),
    Retired(r"\bunits that run at once\b", "NPU hardware steps"),
    Retired(r"\b[Nn]obody\b", "no ST program, not measured, undeclared, ...", CODE),
    Retired(r"\byardstick\b|\b[Ss]urely\b|\bwho asks\b", "reference, significantly"),
    Retired(r"\bmade(-up)? (sound|data|images?|frames|samples)\b", "synthetic"),
    Retired(r"\bfirst states\b|\bstates? get their first values\b", "initial states"),
    Retired(r"\bchain of the same codes\b", "integer reference"),
    Retired(r"\b[Mm]end(s|ed|ing)?\b", "fix, correct, improve", CODE),
)


def unreleased(text: str) -> str:
    """The part of the changelog about what is not published yet."""
    return "\n## [".join(text.split("\n## [")[:2])


def docstrings(nodes: Iterable[ast.AST]) -> set[int]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found


NEXT = {  # the mark that ends or interrupts what is open
    '"': re.compile(r'(?:\\.|[^"\\\n])*(["\n])', re.DOTALL),
    "`": re.compile(r"(?:\\.|(?!\$\{)[^`\\])*(`|\$\{)", re.DOTALL),
    "{": re.compile(  # comments, quoted marks and regular expressions have marks of their own
        r"(?://[^\n]*|'(?:\\.|[^'\\\n])*'|/(?! )(?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\\\n\[])+/|[^\"`{}])*?([\"`{}])",
        re.DOTALL,
    ),
}


def script_strings(text: str) -> Iterator[tuple[int, str]]:
    """Texts of a script, without comments and without the expressions inside of templates."""
    opened, at = ["{"], 0  # " and ` of texts, { of blocks and of expressions
    while match := NEXT[opened[-1]].match(text, at):
        mark, inner = match[1], opened[-1]
        if inner != "{":
            yield text.count("\n", 0, at) + 1, text[at : match.start(1)]
            opened = [*opened, "{"] if mark == "${" else opened[:-1]
        elif mark != "}":
            opened.append(mark)
        elif len(opened) > 1:
            opened.pop()
        at = match.end()


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of whatever a user may read of a file."""
    text = path.read_text()
    if path.suffix == ".py":
        nodes = tuple(ast.walk(ast.parse(text)))
        internal = docstrings(nodes)
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in internal:
                yield node.lineno, node.value
    elif path.suffix == ".js":
        yield from script_strings(text)
    else:
        yield from enumerate(unreleased(text).split("\n") if path.name == "CHANGELOG.md" else text.split("\n"), 1)


def read_by_users() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/cases/*.md")]
    pages += [*ROOT.glob("docs/reference/*.md"), *ROOT.glob("examples/*/README.md")]
    program = [path for suffix in ("py", "js", "html") for path in ROOT.glob(f"atonc/**/*.{suffix}")]
    return [path for path in (*pages, *program) if path.relative_to(ROOT).as_posix() not in ABOUT_TERMS]


def found_in(text: str, name: str) -> Iterator[Retired]:
    kind = NO_PROSE.get(Path(name).suffix)
    prose = kind.sub(" ", text) if kind else text
    for term in RETIRED if " " in text.strip() else ():
        if not any(name.startswith(start) for start in term.allowed) and re.search(term.pattern, prose):
            yield term


@cache
def suspects() -> tuple[tuple[str, int, str], ...]:
    """Whatever has a retired term, allowed or not: file, line and text."""
    any_term = re.compile("|".join(f"(?:{term.pattern})" for term in RETIRED))
    return tuple(
        (path.relative_to(ROOT).as_posix(), line, text)
        for path in read_by_users()
        for line, text in sentences(path)
        if any_term.search(text)
    )


def test_no_retired_term_is_read_by_users() -> None:
    wrong = [
        f"{name}:{line}: {text.strip()[:100]!r}: write {term.use}"
        for name, line, text in suspects()
        for term in found_in(text, name)
    ]
    assert not wrong, "\n".join(wrong)


PLANTED = (
    ("verified: at most 1 code off", "LSB"), ("23 of 23 inside the band", "error bounds"),
    ("every form of a program", "configuration"), ("evidence: 0 unseen", "hardware confidence"),
    ("1.30 times the practical bound", "attainable"), ("What to do: give another name", "fix"),
    ("4.24 mJ an inference", "/inference"), ("the processor sleeps", "CPU"), ("12 pictures", "image"),
)  # fmt: skip


@pytest.mark.parametrize(("sentence", "instead"), PLANTED)
def test_a_planted_sentence_is_found(sentence: str, instead: str, tmp_path: Path) -> None:
    """In a page, in a script and in a string of a module, f-strings included; not in a docstring."""
    assert any(instead in term.use for term in found_in(sentence, "docs/page.md"))
    files = {"a.py": f'"""{sentence}"""\nx = f"{sentence} {{y}}"\n', "a.js": f'say("{sentence}");\n'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        found = [line for line, said in sentences(tmp_path / name) for _ in found_in(said, name)]
        assert found == [2 if name == "a.py" else 1]


def test_exceptions_are_few_and_used() -> None:
    """An exception that nothing needs any more goes."""
    listed = {(term.pattern, start) for term in RETIRED for start in term.allowed}
    needed = {
        (term.pattern, start)
        for name, _, text in suspects()
        for term in RETIRED
        for start in term.allowed
        if name.startswith(start) and re.search(term.pattern, text)
    }
    assert listed == needed and len({start for _, start in listed} | {*ABOUT_TERMS}) <= 8, sorted(listed ^ needed)


# special terms, and the section of the glossary that explains them
TERMS = {
    "epochs?(?! controller)": "hardware", "epoch controller": "hardware", "stream engines?": "hardware",
    "blobs?": "hardware", "memory pools?": "memory", "exact arithmetic": "compiler", "LSB": "compiler",
    "hardware confidence": "hardware-confidence", "error bounds": "results", "bottlenecks?": "results",
    "attainable minimum": "results",
}  # fmt: skip
WRITTEN = re.compile(r"```.*?```|<!-- (?:figures|seen):.*?<!-- end -->|`[^`]*`|^#.*?$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("term", TERMS)
def test_a_page_links_a_special_term_to_the_glossary(term: str) -> None:
    section = f"glossary.md#{TERMS[term]})"
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/cases/*.md")]
    for page in pages:
        prose = WRITTEN.sub(" ", page.read_text())
        used = re.search(rf"(?<![-/.])\b{term}\b(?![-/])", prose)
        if used and page.relative_to(ROOT).as_posix() not in ABOUT_TERMS:
            assert section in prose, f"{page.name} says {used[0]!r} and does not link to {section}"
    titles = {title.lower().replace(" ", "-") for title in glossary()}
    assert TERMS[term] in titles


def test_only_the_unreleased_part_of_the_changelog_counts() -> None:
    assert unreleased("# C\n\n## [2] - x\nnew\n\n## [1] - y\nold") == "# C\n\n## [2] - x\nnew\n"


def test_a_term_has_one_entry() -> None:
    named = [name for terms in glossary().values() for term in terms for name in term.word.lower().split(", ")]
    assert sorted(named) == sorted(set(named))
