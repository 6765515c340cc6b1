"""A program of ExecuTorch (.pte) on this machine. Where delegates of ours are all of it, our loader runs them on the
virtual board and nothing else is needed; where kernels of ExecuTorch stand between them, its own runtime runs the
whole, in a process of its own, since odd programs make it abort."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.reference_process import pack, unpack
from atonc.compiler.frontends import limits
from atonc.compiler.frontends.read import in_file
from atonc.compiler.ir import Array
from atonc.delivery.layouts.tflite_model import npu_operator
from atonc.delivery.reloc.image import Image, read_image
from atonc.delivery.trials import loading
from atonc.delivery.trials.loading import EpochTime, ImageEdges, LoaderRig, buffer_info
from atonc.delivery.trials.npu_operator import install
from atonc.delivery.trials.pte_file import BACKEND, PteProgram, PteTensor, read_pte
from atonc.insight.runs.runs import EdgeBuffers
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import Child, ChildDiedError
from atonc.machine.base.errors import AtoncError, InputError, ModelError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.emu import tensors
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.types import BufferInfo

_AGAIN = "write the .pte again with this release of atonc"
_DAMAGED = "its calls and its values contradict each other"
_KINDS = {"float16": "FLOAT", "float32": "FLOAT", "float64": "DOUBLE"}
_SERVER = "from atonc.delivery.executorch.child import main; main()"
_LIMIT_S = 3600.0


@dataclass(frozen=True)
class InstalledDelegate:
    image: Image
    rig: LoaderRig
    edges: ImageEdges
    size_bytes: int  # of its data in the file


def delegates_of(file: Path) -> tuple[PteProgram, list[InstalledDelegate]]:
    try:
        program = read_pte(limits.read_bytes(file))
        return program, _installed(program)
    except AtoncError as error:
        raise in_file(file, error) from error.__cause__


def _installed(program: PteProgram) -> list[InstalledDelegate]:
    """Every delegate on a virtual board of its own, as the loader takes it."""
    found = []
    for k, delegate in enumerate(program.delegates):
        stage("installing", k, len(program.delegates))
        where, data = f"delegate {k}", bytes(delegate.data)
        rig = install(data, where, _AGAIN)
        image = read_image(npu_operator(data, where).image, where)
        found.append(InstalledDelegate(image, rig, loading.told(rig.said), len(data)))
    _require(program, found)
    return found


def _require(program: PteProgram, delegates: Sequence[InstalledDelegate]) -> None:
    """Operands are those of the images; where delegates are all, every value is made once, before it is read."""
    known, read, made = set(program.inputs), set(program.outputs), list(program.inputs)
    for call in program.calls:
        if call.delegate is None:
            continue
        one = delegates[call.delegate]
        inner = (*one.edges.inputs.inputs, *one.edges.outputs)
        held = [program.tensors[k] for k in call.values]
        if [(tensor.dtype, tensor.size_bytes) for tensor in held] != [
            (tensors.dtype_of(info).name, info.size_bytes) for info in inner
        ]:
            raise ModelError("its operands have other types or sizes than its image's buffers",
                             where=f"delegate {call.delegate}", remedy=_AGAIN)  # fmt: skip
        amount = len(one.edges.inputs.inputs)
        given, gives = call.values[:amount], call.values[amount:]
        if not program.beside and (not known.issuperset(given) or len(set(given)) < len(given)):
            raise ModelError("reads what nothing makes before it", where=f"delegate {call.delegate}", rule=_DAMAGED)
        read.update(given)
        known.update(gives)
        made += gives
    if program.beside:
        return
    if len(set(made)) < len(made) or not known.issuperset(program.outputs):
        raise ModelError("a value is produced twice, or an output is not produced", rule=_DAMAGED)
    if not read.issuperset(k for call in program.calls for k in call.values):
        raise ModelError("the result of a delegate is not used", rule=_DAMAGED)


def profiled(delegate: InstalledDelegate) -> list[EpochTime]:
    """Its blocks of epochs in the second of two inferences, with data of seed 0."""
    stored = [np.frombuffer(value, np.uint8) for value in delegate.edges.stored((), 0)]
    for _ in range(loading.INFERENCES):
        _, times = delegate.rig.profile(stored)
    return times


class PteRunner(AbstractContextManager["PteRunner"]):
    """A file that is ready to run again and again; use it with `with`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._their: Child | None = None
        self._delegates = list[InstalledDelegate]()
        try:
            self.program = read_pte(limits.read_bytes(file))
            self._infos = [_info(self.program, k) for k in range(len(self.program.inputs))]
            for info in self._infos:
                tensors.dtype_of(info)
            if not self.program.beside:
                self._delegates = _installed(self.program)
        except AtoncError as error:
            raise in_file(file, error) from error.__cause__
        if self.program.beside:
            self._start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._their is not None:
            self._their.close()
            self._said.close()

    @property
    def edges(self) -> EdgeBuffers:
        """Its inputs, as data for them are made or read."""
        return EdgeBuffers(tuple(self._infos), tuple(i for one in self._delegates for i in one.edges.inputs.internals))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name; inputs by name, as codes or as real numbers."""
        names = [info.name for info in self._infos]
        if sorted(inputs) != sorted(names):
            wrong = sorted(set(inputs) ^ set(names))[0]
            raise InputError(
                f"the program has no input {wrong[:100]!r}" if wrong in inputs else f"no values for {wrong}",
                where=str(self.file),
                rule=f"its inputs in their order: {', '.join(names)}",
            )
        given = [self._stored(info, inputs[info.name]) for info in self._infos]
        found = self._theirs(given) if self._their is not None else self._ours(given)
        return {self.program.output_name(k): value for k, value in enumerate(found)}

    def _stored(self, info: BufferInfo, value: Any) -> Array:
        memory = AddressSpace()
        memory.add(info.name, 0, max(1, info.size_bytes))
        tensors.write_input(info, np.asarray(value), memory)
        return np.frombuffer(memory.read(0, info.size_bytes).tobytes(), tensors.dtype_of(info)).reshape(info.shape)

    def _ours(self, given: Sequence[Array]) -> Iterator[Array]:
        values = dict(zip(self.program.inputs, given, strict=True))
        for number, call in enumerate(self.program.calls):
            stage("running", number, len(self.program.calls))
            assert call.delegate is not None
            one = self._delegates[call.delegate]
            amount = len(one.edges.inputs.inputs)
            stored = [np.frombuffer(values[k].tobytes(), np.uint8) for k in call.values[:amount]]
            for k, made in zip(call.values[amount:], one.rig.run(stored).outputs, strict=True):
                tensor = self.program.tensors[k]
                values[k] = np.frombuffer(made.tobytes(), tensor.dtype).reshape(tensor.shape)
        return (values[k] for k in self.program.outputs)

    # ------------------------------------------------------------------------------------------------ their runtime

    def _start(self) -> None:
        if find_spec("executorch") is None:
            raise ToolError(
                "executorch is not installed",
                where=str(self.file),
                rule=f"{', '.join(sorted(set(self.program.beside)))[:200]}: ExecuTorch's kernels run what is outside "
                "of delegates",
                remedy="pip install 'atonc[executorch]'",
            )
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (their log)
        paths = [str(package_folder().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._their = Child(_SERVER, {"PYTHONPATH": os.pathsep.join(paths)}, self._said)

    def _theirs(self, given: Sequence[Array]) -> Iterator[Array]:
        assert self._their is not None
        arrays, contents = pack({str(k): value for k, value in enumerate(given)})
        stage("running")
        try:
            answer, content = self._their.ask({"path": str(self.file), "arrays": arrays}, *contents, seconds=_LIMIT_S)
        except ChildDiedError as death:
            raise ToolError(f"ExecuTorch's runtime {death.how}", where=str(self.file), rule=self._last()) from None
        if "error" in answer:
            raise ToolError(answer["error"], where=str(self.file), rule=self._last(), remedy=answer["remedy"])
        return iter(unpack(answer["arrays"], content).values())

    def _last(self) -> str:
        """What their log says of it."""
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read().decode(errors="replace").splitlines()]
        ours = [line.partition(f"{BACKEND}: ")[2] for line in lines if f"{BACKEND}: " in line]
        return (ours or [line for line in lines if line] or [""])[-1][:300]


def _info(program: PteProgram, k: int) -> BufferInfo:
    tensor: PteTensor = program.tensors[program.inputs[k]]
    kind = _KINDS.get(tensor.dtype, tensor.dtype.upper())
    bits = 8 * np.dtype(tensor.dtype).itemsize
    return buffer_info(program.input_name(k), tensor.shape, "First", kind, bits, ((), 0, 0))
