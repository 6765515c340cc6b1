"""The commands of the guides, exactly as written, in a fresh folder; and the links between the pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GUIDES = sorted((ROOT / "docs").glob("*.md"))
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _commands(path: Path) -> list[str]:
    return [line for block in _BLOCK.findall(path.read_text()) for line in block.splitlines() if line.strip()]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "bin").mkdir()
    for name, words in (("atonc", "-m atonc "), ("python3", "")):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("guide", [path for path in GUIDES if _commands(path)], ids=lambda path: path.stem)
def test_commands_work_as_written(guide: Path, checkout: Path) -> None:
    lines = _commands(guide)
    if shutil.which("arm-none-eabi-gcc") is None:  # the virtual board needs it; the board tests say that they skip
        lines = [line for line in lines if "--mode board" not in line]
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("cmake") is None:
        lines = [line for line in lines if not line.startswith("cmake ") and "bare_metal" not in line]
    path = f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    script = "set -e\n" + "\n".join(lines)
    done = subprocess.run(["sh", "-c", script], cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "README.md"], ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
