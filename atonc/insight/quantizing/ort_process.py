"""onnxruntime in a process of its own: where it crashes, only that process is lost.

One process has all sessions of ours, since it takes a second to start; it is started when it is first needed, anew
after a death, and ended with ours."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from atonc.compiler.compare.reference_process import NUMBERS, pack, unpack
from atonc.compiler.ir import Array
from atonc.machine.base import child
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import Child, ChildDiedError, Message
from atonc.machine.base.errors import ModelError

LIMIT_SECONDS = 600.0  # for folding constants, which may never end
_SERVER = "from atonc.insight.quantizing.ort_process import main; main()"
_CRASHES = "it crashes at some models; it ran in a process of its own"
_OTHER_FILE = "fold them in the source (onnx-simplifier, or export with fixed shapes), and quantise that file"
_OTHER_RELEASE = "another release of onnxruntime; or simplify the model in the source (onnx-simplifier)"


class OrtProcess:
    """Where sessions live, by number."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._child: Child | None = None
        self._opened = 0
        self._dropped: list[int] = []

    def opened(self, model: bytes, words: Mapping[str, Any], where: str) -> OrtSession:
        with self._lock:
            self._opened += 1
            number = self._opened
            answer, _ = self.ask({"do": "open", "number": number, **words}, [model], "loaded the model", where)
            assert self._child is not None
            found = OrtSession(self, self._child, number, tuple(answer["outputs"]), where)
            weakref.finalize(found, self._dropped.append, number)
            return found

    def ask(
        self, words: Mapping[str, Any], contents: Sequence[bytes], doing: str, where: str,
        seconds: float = 0.0, remedy: str = _OTHER_RELEASE,
    ) -> Message:  # fmt: skip
        """RuntimeError for what it says itself, ModelError for a death."""
        with self._lock:
            process = self.started()
            dropped, self._dropped[:] = list(self._dropped), ()
            try:
                answer, content = process.ask({**words, "dropped": dropped}, *contents, seconds=seconds)
            except ChildDiedError as death:
                how = f"did not end within {seconds:g} s" if death.late else death.how
                self.close()
                what = f"onnxruntime {how} while it {doing}"
                raise ModelError(what, where=where, rule=_CRASHES, remedy=remedy) from None
            except BaseException:  # Ctrl-C in the middle of an answer
                self.close()
                raise
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer, content

    def started(self) -> Child:
        if self._child is None:
            paths = [str(package_folder().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 (what its libraries print)
            self._child = Child(_SERVER, {"PYTHONPATH": os.pathsep.join(paths)}, self._said, own_session=True)
        return self._child

    def has(self, process: Child) -> bool:
        return self._child is process

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._said.close()
            self._child = None


@cache
def _of_process(_: int) -> OrtProcess:
    made = OrtProcess()
    atexit.register(made.close)
    return made


def ort_process() -> OrtProcess:
    """The one of this process: a fork shares no pipe with it."""
    return _of_process(os.getpid())


class OrtSession:
    """A loaded model. `run` as onnxruntime's."""

    def __init__(self, owner: OrtProcess, process: Child, number: int, outputs: tuple[str, ...], where: str) -> None:
        self._owner, self._process, self._number, self.outputs, self._where = owner, process, number, outputs, where

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Array]) -> list[Array]:
        if not self._owner.has(self._process):
            raise RuntimeError("its process ended before")
        wanted = list(self.outputs if names is None else names)
        listed, contents = pack({name: np.asarray(value) for name, value in feed.items()})
        words = {"do": "run", "number": self._number, "names": wanted, "arrays": listed}
        answer, content = self._owner.ask(words, contents, "ran the model on the samples", self._where)
        found = unpack(answer["arrays"], content)
        return [found[str(k)].copy() for k in range(len(wanted))]


def optimised(model: Any, name: str) -> Any:
    """The model with its constants folded and BatchNorm merged into weights, and with shapes."""
    from onnx import shape_inference

    _, content = ort_process().ask(
        {"do": "optimise"}, [model.SerializeToString()], "folded the constants of the model", name, LIMIT_SECONDS,
        _OTHER_FILE,
    )  # fmt: skip
    made = type(model)()
    made.ParseFromString(content)
    return shape_inference.infer_shapes(made)


# ------------------------------------------------------------------------------------------------------- in the child


def main() -> None:
    import onnxruntime  # noqa: F401 (before the first question)

    answers, sessions = child.answers(), dict[int, Any]()
    while True:
        try:
            asked, content = child.receive(sys.stdin.buffer)
        except EOFError:
            return
        for number in asked["dropped"]:
            sessions.pop(number, None)
        try:
            told, contents = _ANSWERS[asked["do"]](sessions, asked, content)
        except Exception as error:  # whatever its C++ side says
            told, contents = {"error": str(error)}, []
        child.send(answers, told, *contents)


def _settings() -> Any:
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    return settings


def _optimise(_: dict[int, Any], __: Mapping[str, Any], content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        target, settings = Path(folder) / "tidy.onnx", _settings()
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        settings.optimized_model_filepath = str(target)
        settings.intra_op_num_threads = 1
        ort.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
        return {}, [target.read_bytes()]


def _open(sessions: dict[int, Any], asked: Mapping[str, Any], content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    import onnxruntime as ort

    settings = _settings()
    settings.intra_op_num_threads = asked["threads"]
    if asked["exact"]:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = ort.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    sessions[asked["number"]] = made
    return {"outputs": [one.name for one in made.get_outputs()]}, []


def _run(sessions: dict[int, Any], asked: Mapping[str, Any], content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    found = sessions[asked["number"]].run(asked["names"], unpack(asked["arrays"], content))
    values = {str(k): np.asarray(value) for k, value in enumerate(found)}
    strange = [asked["names"][int(k)] for k, value in values.items() if value.dtype.kind not in NUMBERS]
    if strange:
        return {"error": f"{strange[0]} holds no numbers"}, []
    listed, contents = pack(values)
    return {"arrays": listed}, contents


_ANSWERS = {"optimise": _optimise, "open": _open, "run": _run}
