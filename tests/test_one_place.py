"""Some things are written once: who needs them again imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "atonc"
WINDOW = {"kernel_height", "kernel_width", "batch"}
# other things than multiplications: how many products a sum has, how many bytes a set of kernels
OTHERS = {ROOT / "machine" / "hw" / "units" / "convacc.py", ROOT / "machine" / "hw" / "safety" / "mode_keys.py"}


def factors(node: ast.expr) -> set[str]:
    """Names of everything that a product multiplies."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return factors(node.left) | factors(node.right)
    return {node.attr} if isinstance(node, ast.Attribute) else {node.id} if isinstance(node, ast.Name) else set()


def macs_counted(tree: ast.AST) -> Iterator[int]:
    """Lines with the multiplications of a window: its height times its width times its channels."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and factors(node) >= WINDOW:
            yield node.lineno


def test_multiplications_are_counted_in_one_place() -> None:
    texts = {path: path.read_text() for path in ROOT.rglob("*.py")}
    texts = {path: text for path, text in texts.items() if "kernel_height" in text}
    found = {path for path, text in texts.items() if any(macs_counted(ast.parse(text)))}
    assert found - OTHERS == {ROOT / "machine" / "hw" / "cycles" / "work.py"}
    planted = ast.parse("total = flow.total * config.kernel_height * config.kernel_width * config.batch")
    assert set(macs_counted(planted)) == {1}


def test_one_writer_of_epoch_tables() -> None:
    heads = [path for path in ROOT.rglob("*.py") if '"ST cycles"' in path.read_text()]
    assert heads == [ROOT / "insight" / "report" / "parts.py"]


def test_one_head_of_pages() -> None:
    pages = [p for p in ROOT.rglob("*") if p.suffix in (".py", ".html") and "<!doctype html>" in p.read_text().lower()]
    assert pages == [ROOT / "insight" / "report" / "html" / "page.py"]


RUN = 6  # lines of code that look the same by chance no longer
WRITTEN_TWICE = {  # pairs of files; nothing may be added
    (
        "compiler/emit/c/stai_text.py",
        "compiler/emit/c/stai_text.py",
    ),  # C text of two functions for tables of different types
    ("insight/workers/run.py", "insight/workers/run.py"),  # a list, and the same as a stream: the arguments
}


def code_lines(text: str) -> list[str]:
    """Without comments, blank lines, lone brackets and imports."""
    found, importing = list[str](), False
    for line in (line.split("#")[0].strip() for line in text.splitlines()):
        if importing or line.startswith(("from ", "import ")):
            importing = (importing or "(" in line) and ")" not in line
        elif line.strip("()[]{},: "):
            found.append(line)
    return found


def repeated(texts: dict[str, str]) -> set[tuple[str, str]]:
    """Files that share a run of lines, or one with itself."""
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    found = set()
    for name, text in texts.items():
        lines = code_lines(text)
        for at in range(len(lines) - RUN + 1):
            run = tuple(lines[at : at + RUN])
            other, there = seen.setdefault(run, (name, at))
            if other != name or at - there >= RUN:
                found.add((other, name))
    return found


def test_no_run_of_lines_is_written_twice() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
    written = {name: text for name, text in texts.items() if "do not edit" not in text[:400]}
    more = repeated(written) - WRITTEN_TWICE
    assert not more, f"{RUN} lines and more stand twice: one function, one type or one table serves both: {more}"
    planted = "".join(f"x{number} = {number}\n" for number in range(RUN))
    assert repeated({"a.py": planted, "b.py": "import this\n" + planted}) == {("a.py", "b.py")}
    assert not repeated({"a.py": planted, "b.py": planted.replace("3", "4")})
