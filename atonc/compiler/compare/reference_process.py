"""Reference kernels in a process of their own: when they abort or never end, only that process is lost.

One process serves all inputs and kernel sets of a model; it is started anew after a death, and what killed it is not
asked again."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from atonc.compiler.compare.reference import REFERENCE, Kernels, Values, Wanted, open_kernels
from atonc.compiler.ir import Array
from atonc.machine.base import child, errors
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import Child, ChildDiedError, Message
from atonc.machine.base.errors import AtoncError, InputError

Listed = list[list[Any]]  # name, type, shape


def pack(arrays: Mapping[str, Array]) -> tuple[Listed, list[bytes]]:
    listed = [[name, value.dtype.str, value.shape] for name, value in arrays.items()]
    return listed, [np.ascontiguousarray(value).tobytes() for value in arrays.values()]


def unpack(listed: Listed, content: bytes) -> dict[str, Array]:
    arrays, at = {}, 0
    for name, code, shape in listed:
        dtype, count = np.dtype(code), int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(content, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return arrays


LIMIT_SECONDS = 600.0  # for one input; reference kernels are slow
_SERVER = "from atonc.compiler.compare.reference_process import main; main()"


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

    def run(
        self, path: Path, inputs: Values, kernels: str = REFERENCE, tensors: Wanted = None, keep: bool = False
    ) -> dict[str, Array]:
        """Runs the model as `open_kernels` does; whatever happens over there is an AtoncError here. `keep`: variables
        of the model are as its last run has left them."""
        words = {"path": str(path), "kernels": kernels, "tensors": None if tensors is None else list(tensors)}
        key = repr(words)
        if key in self._fatal:
            raise ReferenceDied(self._fatal[key], where=str(path))
        named = isinstance(inputs, Mapping)
        arrays = dict(inputs) if isinstance(inputs, Mapping) else {str(k): v for k, v in enumerate(inputs)}
        answer, content = self._ask({**words, "named": named, "keep": keep}, arrays, key, str(path))
        if "error" in answer:
            kind = getattr(errors, answer["error"], InputError)
            raise kind(answer["what"], where=str(path), rule=answer["rule"], remedy=answer["remedy"])
        return unpack(answer["arrays"], content)

    def _ask(self, words: dict[str, Any], arrays: Mapping[str, Array], key: str, where: str) -> Message:
        if self._process.ended:
            self.close()
            self._start()
        listed, contents = pack(arrays)
        try:
            return self._process.ask({**words, "arrays": listed}, *contents, seconds=self.limit_seconds)
        except ChildDiedError as death:
            self._fatal[key] = self._obituary(death)
            raise ReferenceDied(self._fatal[key], where=where) from None

    def _obituary(self, death: ChildDiedError) -> str:
        if death.late:
            return f"the reference interpreter did not end within {self.limit_seconds:g} s"
        self._said.seek(0)
        last = [line.strip() for line in self._said.read().decode(errors="replace").splitlines() if line.strip()][-1:]
        return f"the reference interpreter {death.how}" + (f" ({last[0][-200:]})" if last else "")

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (what the libraries print)
        paths = [str(package_folder().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = Child(_SERVER, {"PYTHONPATH": os.pathsep.join(paths)}, self._said)

    def close(self) -> None:
        self._process.close()
        self._said.close()


NUMBERS = "biuf"


def main() -> None:
    answers = child.answers()
    opened: dict[str, Kernels] = {}
    while True:
        try:
            asked, content = child.receive(sys.stdin.buffer)
        except EOFError:
            return
        inputs = unpack(asked["arrays"], content)
        tensors = None if asked["tensors"] is None else tuple(asked["tensors"])
        key = repr((asked["path"], asked["kernels"], tensors))
        try:
            if key not in opened:
                opened[key] = open_kernels(Path(asked["path"]), asked["kernels"], tensors)
            found = opened[key](inputs if asked["named"] else list(inputs.values()), asked["keep"])
        except AtoncError as error:
            told = {"what": error.what, "rule": error.rule, "remedy": error.remedy}
            child.send(answers, {"error": type(error).__name__, **told})
            continue
        listed, contents = pack({name: value for name, value in found.items() if value.dtype.kind in NUMBERS})
        child.send(answers, {"arrays": listed}, *contents)


if __name__ == "__main__":
    main()
