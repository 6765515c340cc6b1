"""Reference kernels in a process of their own: when they abort or never end, only that process is lost.

One process serves all inputs and kernel sets of a model; it is started anew after a death, and what killed it is not
asked again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from atonc import errors
from atonc.about import package_folder
from atonc.compare.messages import receive, send
from atonc.compare.reference import REFERENCE, Values, Wanted
from atonc.errors import InputError
from atonc.ir import Array

LIMIT_SECONDS = 600.0  # for one input; reference kernels are slow
_SERVER = "from atonc.compare.reference_server import main; main()"


class ReferenceDied(InputError):
    """The reference interpreter ended its process, or did not end in time."""


class ReferenceProcess:
    """Use it with `with`. It starts at once, so that it loads its libraries while the caller does other things."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS) -> None:
        self.limit_seconds = limit_seconds
        self._fatal: dict[str, str] = {}
        self._start()

    def __enter__(self) -> ReferenceProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, path: Path, inputs: Values, kernels: str = REFERENCE, tensors: Wanted = None) -> dict[str, Array]:
        """As `open_kernels`; whatever happens over there is an AtoncError here."""
        words = {"path": str(path), "kernels": kernels, "tensors": None if tensors is None else list(tensors)}
        key = repr(words)
        if key in self._fatal:
            raise ReferenceDied(self._fatal[key], where=str(path))
        named = isinstance(inputs, Mapping)
        arrays = dict(inputs) if isinstance(inputs, Mapping) else {str(k): v for k, v in enumerate(inputs)}
        answer, found = self._ask({**words, "named": named}, arrays, key, str(path))
        if answer:
            kind = getattr(errors, answer["error"], InputError)
            raise kind(answer["what"], where=str(path), remedy=answer["remedy"])
        return found

    def _ask(
        self, words: dict[str, Any], arrays: Mapping[str, Array], key: str, where: str
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        if self._process.poll() is not None:
            self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.limit_seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            send(process.stdin, words, arrays)
            return receive(process.stdout)
        except (EOFError, OSError):
            process.kill()
            self._fatal[key] = self._obituary(process.wait(), late.is_set())
            raise ReferenceDied(self._fatal[key], where=where) from None
        finally:
            timer.cancel()

    def _obituary(self, status: int, late: bool) -> str:
        if late:
            return f"the reference interpreter did not end within {self.limit_seconds:g} s"
        how = f"ended with status {status}"
        if -status in list(signal.Signals):
            how = f"was ended by {signal.Signals(-status).name}"
        self._said.seek(0)
        last = [line.strip() for line in self._said.read().decode(errors="replace").splitlines() if line.strip()][-1:]
        return f"the reference interpreter {how}" + (f" ({last[0][-200:]})" if last else "")

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (what the libraries print)
        home = str(package_folder().parent)
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()
