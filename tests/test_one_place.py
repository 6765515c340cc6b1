"""Some things are written once: who needs them again imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "atonc"
WINDOW = {"kernel_height", "kernel_width", "batch"}
# other things than multiplications: how many products a sum has, how many bytes a set of kernels
OTHERS = {ROOT / "hw" / "units" / "convacc.py", ROOT / "hw" / "safety" / "mode_keys.py"}


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
    assert found - OTHERS == {ROOT / "cost" / "macs.py"}
    planted = ast.parse("total = flow.total * config.kernel_height * config.kernel_width * config.batch")
    assert set(macs_counted(planted)) == {1}


def test_one_writer_of_epoch_tables() -> None:
    heads = [path for path in ROOT.rglob("*.py") if "'ST est.'" in path.read_text()]
    assert heads == [ROOT / "report" / "epoch_table.py"]


def test_one_head_of_pages() -> None:
    pages = [p for p in ROOT.rglob("*") if p.suffix in (".py", ".html") and "<!doctype html>" in p.read_text().lower()]
    assert pages == [ROOT / "report" / "html" / "page.py"]
