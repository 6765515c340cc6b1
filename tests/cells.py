"""Cells of a notebook in one namespace, as a kernel runs them."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any


def run_cells(notebook: Path) -> tuple[dict[str, Any], list[Any]]:
    """The names that are left, and what is shown: the value of a last expression of each cell."""
    names, shown = dict[str, Any](), list[Any]()
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, "its outputs are stripped"
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, notebook.name, "exec"), names)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), names))
    return names, shown
