"""C operators of the user (`generate --custom`): what is declared of one, what a call of it looks like, and the call
itself, compiled and run on this computer.

The function runs in a process of its own, twice, and once more in another one, in guarded memory
(`runtime/custom/guarded.c`): what it breaks is said as an error, never a crash of ours. It may do what the user may do,
so nobody runs it for others: the service and the door for agents refuse the option.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from atonc.machine.base.about import package_folder
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass

HEADER = "atonc_custom.h"
CALL = "atonc_custom"  # how generated code calls: a macro, so that readers see what is the user's
ELEMENTS = ("int8", "uint8", "int16", "int32", "float32")
VALUES = {
    "int": "int32_t",
    "float": "float",
    "ints": "const int32_t *",
    "floats": "const float *",
    "bytes": "const uint8_t *",
}
LISTS = {"ints": "int32_t", "floats": "float", "bytes": "uint8_t"}  # they are followed by their number
MOST_SECONDS = 10  # of the processor, for a call on this computer
FLAGS = ("-std=gnu11", "-O1", "-g0", "-ffp-contract=off", "-w")
_OURS = package_folder().joinpath("machine", "runtime", "custom")
_TEMPORARY = "atonc-custom-"
_PATIENCE_S = 30  # for a function that sleeps

Value = int | float | tuple[int | float, ...]


class UserCodeError(InputError):
    """The user's function does what it may not."""

    usual_fix = "correct the C file that --custom names"


@dataclass(frozen=True)
class CustomOutput:
    type: str
    shape: tuple[int, ...] | None = None  # None: that of the first input
    scale: float = 0.0  # 0: the model says it
    zero_point: int = 0


@dataclass(frozen=True)
class CustomValue:
    """An attribute that the function gets, or the options of a TFLite operator."""

    name: str
    type: str
    default: Value | None = None


@dataclass(frozen=True, repr=False)
class CustomOperator:
    """A declared operator with the C files that have its function."""

    name: str  # as the model has it, with its domain
    function: str
    files: tuple[tuple[str, bytes], ...]
    inputs: tuple[str, ...]  # element types
    outputs: tuple[CustomOutput, ...]
    attributes: tuple[CustomValue, ...] = ()
    cycles: int | None = None  # of the CPU, for one call, as the user says
    scratch_bytes: int = 0  # that a call may use; what it leaves there means nothing

    @property
    def prototype(self) -> str:
        words = ["const atonc_tensor *"] * (len(self.inputs) + len(self.outputs))
        for one in self.attributes:
            words += [VALUES[one.type], "int32_t"] if one.type in LISTS else [VALUES[one.type]]
        words += ["void *"] * bool(self.scratch_bytes)
        return f"void {self.function}({', '.join(words)});"

    def __repr__(self) -> str:
        return f"{self.function}() of {', '.join(name for name, _ in self.files if name.endswith('.c'))}"


CustomOperators = Mapping[str, CustomOperator]  # by function


@dataclass(frozen=True)
class CustomTensor:
    """A tensor of one call."""

    name: str
    type: str
    shape: tuple[int, ...]
    scale: float = 1.0
    zero_point: int = 0

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.type).itemsize


@dataclass(frozen=True)
class CustomCall:
    """Inputs, then outputs; values in the order of the declaration."""

    operator: CustomOperator
    operands: tuple[CustomTensor, ...]
    values: tuple[Value, ...]

    @property
    def outputs(self) -> tuple[CustomTensor, ...]:
        return self.operands[len(self.operator.inputs) :]

    def run(self, inputs: Sequence[bytes], where: str = "") -> list[bytes]:
        """The outputs, or a UserCodeError that says what the function did."""
        try:
            program = _built(self)
        except InputError as error:
            error.where = error.where or where
            raise
        try:
            with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
                path = Path(folder, "call")
                path.write_bytes(program)
                path.chmod(0o700)
                Path(folder, "in").write_bytes(b"".join(inputs))
                first, second = self._runs(path, 2, where)
                (third,) = self._runs(path, 1, where)
        except OSError as error:
            raise _not_here(f"cannot be run: {error.strerror}") from None
        for operand, one, *others in zip(self.outputs, first, second, third, strict=True):
            for other, title in zip(others, ("a second run", "another process"), strict=True):
                if one != other:
                    raise self._differs(operand, one, other, title, where)
        self._require_finite(inputs, first, where)
        return first

    def _runs(self, program: Path, number: int, where: str) -> list[list[bytes]]:
        """The outputs of this many runs in one process. What it starts itself is not waited for, and ended."""
        given, made, said = (program.with_name(name) for name in ("in", "out", "said"))
        command = [str(program)] if number == 2 else [str(program), "once"]
        with given.open("rb") as source, made.open("wb") as target, said.open("wb") as words:
            done = subprocess.Popen(command, stdin=source, stdout=target, stderr=words, start_new_session=True)
            try:
                status = done.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise self._wrong(f"does not end within {_PATIENCE_S} seconds", where) from None
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(done.pid, signal.SIGKILL)
                done.wait()
        if status == -signal.SIGXCPU:
            raise self._wrong(f"does not end: it took {MOST_SECONDS} seconds of CPU time", where)
        if status < 0:
            raise self._wrong(f"is ended by signal {-status} ({signal.strsignal(-status)})", where)
        if status == 3:
            raise self._wrong(said.read_bytes().decode(errors="replace").strip().removeprefix("it "), where)
        sizes, found = [one.size_bytes for one in self.outputs], made.read_bytes()
        if status or len(found) != number * sum(sizes):
            raise self._wrong(f"ends the program (status {status})", where)
        parts = [found[a:b] for a, b in itertools.pairwise(np.cumsum([0, *sizes * number]))]
        return [parts[k * len(sizes) : (k + 1) * len(sizes)] for k in range(number)]

    def _require_finite(self, inputs: Sequence[bytes], outputs: Sequence[bytes], where: str) -> None:
        """What is no number in the inputs may be none in the outputs."""
        places = [_not_finite(one, data) for one, data in zip(self.operands, (*inputs, *outputs), strict=True)]
        if any(places[: len(inputs)]):
            return
        for operand, data, place in zip(self.outputs, outputs, places[len(inputs) :], strict=True):
            if place:
                value = np.frombuffer(data, np.float32)[place[0]]
                rule = "finite inputs give finite outputs: layers behind it could not be compared"
                raise self._wrong(f"gives {value} at element {place[0]} of {operand.name}", where, rule)

    def _differs(self, operand: CustomTensor, one: bytes, other: bytes, title: str, where: str) -> UserCodeError:
        pair = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
        place = int(np.flatnonzero(pair[0] != pair[1])[0])
        if (pair[0][place], pair[1][place]) == (0xA5, 0x5A):
            return self._wrong(f"does not write byte {place} of {operand.name}", where)
        return self._wrong(
            f"gives other values in {title}, first at byte {place} of {operand.name}",
            where,
            "it depends on memory that it did not write, on time or addresses, or keeps something from call to call",
        )

    def _wrong(self, what: str, where: str, rule: str = "") -> UserCodeError:
        rule = (
            rule
            or "a function writes all of its outputs and nothing else, ends, and gives equal outputs for equal inputs"
        )
        return UserCodeError(f"{self.operator.function}() {what}", where=where, rule=rule)

    def c_text(self) -> str:
        """`atonc_call.h` of guarded.c."""
        roles = ["INPUT"] * len(self.operator.inputs) + ["OUTPUT"] * len(self.outputs)
        sizes = [(one.name, one.size_bytes) for one in self.operands]
        if self.operator.scratch_bytes:
            roles, sizes = [*roles, "SCRATCH"], [*sizes, ("scratch", self.operator.scratch_bytes)]
        rows = [f'{{ "{name}", {size}, {role} }}' for (name, size), role in zip(sizes, roles, strict=True)]
        lines = [f"enum {{ COUNT = {len(rows)}, SECONDS = {MOST_SECONDS} }};"]
        lines += [f"static const described buffers[COUNT] = {{ {', '.join(rows)} }};"]
        arguments = [_tensor_text(number, one) for number, one in enumerate(self.operands)]
        for declared, value in zip(self.operator.attributes, self.values, strict=True):
            if declared.type in LISTS:
                numbers = value if isinstance(value, tuple) else (value,)
                words = ", ".join(map(_number, numbers)) or "0"
                arguments += [f"(const {LISTS[declared.type]}[]){{ {words} }}", str(len(numbers))]
            else:
                assert not isinstance(value, tuple)
                arguments.append(_number(value))
        if self.operator.scratch_bytes:
            arguments.append(f"at[{len(self.operands)}]")
        body = ",\n        ".join(arguments)
        lines += ["static void call(void *const *at)", "{", f"    {self.operator.function}({body});", "}"]
        return "\n".join(lines) + "\n"


def _not_finite(one: CustomTensor, data: bytes) -> list[int]:
    """The first element that is not a finite number, if there is one."""
    if one.type != "float32":
        return []
    return np.flatnonzero(~np.isfinite(np.frombuffer(data, np.float32)))[:1].tolist()


def _tensor_text(number: int, one: CustomTensor) -> str:
    shape = ", ".join(map(str, one.shape)) or "1"
    return (
        f"&(const atonc_tensor){{ at[{number}], {math.prod(one.shape)}, {len(one.shape)}, "
        f"(const int32_t[]){{ {shape} }}, {_number(float(one.scale))}, {one.zero_point} }}"
    )


def _number(value: int | float) -> str:
    return str(value) if isinstance(value, int) else value.hex()


def host_compiler() -> str:
    """What compiles the user's C for this computer."""
    found = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if found is None:
        raise ToolError(
            "no C compiler of this computer is found",
            where="--custom",
            rule="a C operator of the user is verified as the code that ships: it is compiled and run here",
            remedy="install gcc (Debian, Ubuntu: apt install gcc)",
        )
    if sys.platform == "win32":
        raise _not_here("cannot be run behind guards on Windows")
    return found


def _not_here(what: str) -> ToolError:
    rule = "its program lies in the folder for temporary files while atonc runs"
    return ToolError(
        f"C of the user {what}",
        where="--custom",
        rule=rule,
        remedy="use Linux or macOS, with a TMPDIR that may hold programs",
    )


def runtime_header() -> bytes:
    """What the user's C includes."""
    return _OURS.joinpath(HEADER).read_bytes()


@cache
def _built(call: CustomCall) -> bytes:
    """The program that runs this call."""
    compiler = host_compiler()
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as place:
        folder = Path(place)
        for name, content in call.operator.files:
            (folder / name).write_bytes(content)
        prototypes = folder / "atonc_prototypes.h"
        prototypes.write_text(f'#include "{HEADER}"\n{call.operator.prototype}\n')
        (folder / "atonc_call.h").write_text(call.c_text())
        sources = [str(folder / name) for name, _ in call.operator.files if name.endswith(".c")]
        options = [*FLAGS, f"-I{folder}", f"-I{_OURS}", "-include", str(prototypes)]
        command = [compiler, *options, *sources, str(_OURS / "guarded.c"), "-o", str(folder / "call"), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _not_here(f"cannot be compiled: {error}") from None
        if not done.returncode:
            return (folder / "call").read_bytes()
    said = [line.replace(f"{folder}/", "") for line in done.stderr.splitlines()]
    first = next((line for line in said if "error" in line or "undefined" in line), said[0] if said else "")
    raise UserCodeError(
        f"the C of {call.operator.function}() cannot be compiled here",
        rule=f"{first.strip()}; it is called as {call.operator.prototype}",
    )
