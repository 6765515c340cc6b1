"""The client of the `mcp` package, talking to `atonc mcp` over standard input and output as an agent's program does."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.client.client", reason="the package mcp is not installed")

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError as MCPError

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "examples" / "digits"
TOLD = "digits.tflite"


def agents_folder(place: Path) -> Path:
    """A folder with a model in it, and a secret beside it."""
    folder = place / "models"
    folder.mkdir()
    for name in (TOLD, "digits.onnx", "test.npz"):
        shutil.copy(DIGITS / name, folder)
    (place / "secret.tflite").write_bytes((DIGITS / TOLD).read_bytes())
    return folder


def started(folder: Path, *words: str) -> StdioServerParameters:
    program = "from atonc.doors.cli.start import main; raise SystemExit(main())"
    environment = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "PATH": os.environ["PATH"]}
    arguments = ["-c", program, "mcp", "--folder", str(folder), *words]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=folder)


def talk(folder: Path, talking: Callable[[Client], Awaitable[Any]], *words: str, mode: str = "auto") -> Any:
    async def talk_all() -> Any:
        async with asyncio.timeout(PATIENCE), Client(started(folder, *words), mode=mode) as client:
            return await talking(client)

    return asyncio.run(talk_all())


def said(result: Any) -> str:
    """The text of a result that is an error."""
    assert result.is_error, result.content[0].text[:300]
    return str(result.content[0].text)


def document(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content[0].text
    return dict(result.structured_content)
