"""The notebook of PyTorch as a file: small, its outputs stripped, its cells Python. `python -m benchmarks pytorch`
executes it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pytorch.ipynb"


def test_the_notebook_is_small_stripped_and_python() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert NOTEBOOK.stat().st_size < 20_000
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    tree = ast.parse("\n".join("".join(cell["source"]) for cell in cells))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert {"atonc.torch.compile", "atonc.torch.prepare", "atonc.torch.export", "c.report"} <= called
