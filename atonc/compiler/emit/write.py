"""The program as files for people and tools: assembly text and a description. What firmware needs is in `emit.c`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any

import numpy as np

from atonc.compiler.emit import runs
from atonc.compiler.emit.c import names
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.emit.runs import npu_runs
from atonc.compiler.ir import Graph
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.text import format_program

_CONSTANTS = {None: "null", True: "true", False: "false"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_OF_C = re.compile(  # and of C++, which the rest of a firmware may be in
    "alignas|alignof|and|and_eq|asm|auto|bitand|bitor|bool|break|case|catch|char|char16_t|char32_t|char8_t|class|co_await|"
    "co_return|co_yield|compl|concept|const|const_cast|consteval|constexpr|constinit|continue|decltype|default|delete|do|"
    "double|dynamic_cast|else|enum|explicit|export|extern|false|float|for|friend|goto|if|inline|int|long|mutable|"
    "namespace|new|noexcept|not|not_eq|nullptr|operator|or|or_eq|private|protected|public|register|reinterpret_cast|"
    "requires|restrict|return|short|signed|sizeof|static|static_assert|static_cast|struct|switch|template|this|"
    "thread_local|throw|true|try|typedef|typeid|typename|typeof|typeof_unqual|union|unsigned|using|virtual|void|volatile|"
    "wchar_t|while|xor|xor_eq|_[A-Z_].*"
)
_OF_FILES = re.compile(  # an application has its main.c, and NAME.h would stand before a header of a library
    "main|assert|complex|ctype|errno|fenv|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic|"
    "stdbit|stdbool|stdckdint|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype|"
    r"stm32n6\w*|system_stm32\w*|cmsis\w*|core_cm\w*|arm_(math|nn)\w*"
)
_MACROS = re.compile(  # of the C library and of the device's headers: macros of the runtime paste the name, expanded
    r"NULL|EOF|BUFSIZ|NDEBUG|errno|stdin|stdout|stderr|offsetof|EDOM|ERANGE|EILSEQ|EINVAL|ENOMEM|NAN|INFINITY|I|CHAR_BIT|"
    r"((U?INT|S?CHAR|U?CHAR|U?SHRT|U?L?LONG|S?SIZE|PTRDIFF|W?CHAR|WINT|FLT|DBL|LDBL|RAND|PATH)\w*)_(MAX|MIN|WIDTH)|"
    r"SIG(INT|TERM|ABRT|FPE|ILL|SEGV)|SEEK_(SET|CUR|END)|EXIT_(SUCCESS|FAILURE)|PRI[diouxX]\w+|STM32\w+|HAL_\w+|LL_\w+"
)


def is_reserved(name: str) -> bool:
    return bool(_OF_C.fullmatch(name) or _OF_FILES.fullmatch(name.lower()) or _MACROS.fullmatch(name))


def check_name(name: str) -> str:
    """Names become parts of file names and of C identifiers."""
    if not _NAME.fullmatch(name):
        rule = "letters, digits and _, no digit first, at most 64"
        raise InputError(f"{name[:70]!r} cannot be a name", rule=rule, remedy="take another name")
    if is_reserved(name):
        rule = "words of C, C++, macros and headers of the C library and the device, main, __x and _A to _Z are taken"
        other = f"{name.strip('_')}_net"
        other = f"net_{name.strip('_')}" if is_reserved(other) else other
        raise InputError(f"{name!r} cannot be a name", rule=rule, remedy=f"take another, such as {other}")
    return name


def assembly(program: Program, name: str) -> str:
    """All epochs as text, in the order in which they run."""
    parts = []
    for run in npu_runs(program):
        titles = "".join(f";; epoch {step.number}: {_plain(step.plan.title)}\n" for step in run)
        text = format_program(runs.instructions(program, run))
        parts.append(f";; {names.blob(name, run[0].number)}\n{titles}{text}")
    return "\n".join(parts)


def description(program: Program, graph: Graph, name: str) -> dict[str, Any]:
    """Steps and buffers as plain data."""
    blobs = {step.number: names.blob(name, run[0].number) for run in npu_runs(program) for step in run}
    homes = [h for h in program.placed.values() if h.buffer.kind != BufferKind.CONSTANT or h.buffer.data]
    kept = {"states": states(program, graph)} if program.states else {}
    return {
        "name": name,
        "inputs": list(program.inputs),
        "outputs": list(program.outputs),
        "steps": [_step(step, blobs) for step in program.steps],
        "buffers": [_buffer(home, graph) for home in sorted(homes, key=lambda h: (h.address, h.buffer.name))],
        **kept,
    }


def states(program: Program, graph: Graph) -> list[dict[str, Any]]:
    """What the program keeps from one inference to the next: where, and what a reset writes there."""
    found = []
    for one in program.states:
        tensor, home = graph.tensors[one.name], program.placed[one.name]
        quant = {"scale": tensor.scale, "zero_point": tensor.zero_point} if tensor.quant is not None else {}
        place = {"address": one.address, "size_bytes": one.size_bytes, "pool": home.pool}
        value = {"first": first_words(tensor.dtype, one.first), "shape": list(tensor.shape), "dtype": tensor.dtype}
        turned = {"turned": list(graph.turned[one.name])} if one.name in graph.turned else {}
        found.append({"name": one.name, "output": one.output, **place, **value, **turned, **quant})
    return found


def first_words(dtype: str, first: bytes) -> str:
    """The values that a state begins with."""
    values = np.unique(np.frombuffer(first, np.uint8 if dtype == "bool" else dtype))
    return f"all {values[0]:g}" if values.size == 1 else f"{values.size} values, {values.min():g} to {values.max():g}"


def _step(step: ProgramStep, blobs: Mapping[int, str]) -> dict[str, Any]:
    plan = step.plan
    data: dict[str, Any] = {
        "number": step.number,
        "kind": "cpu" if isinstance(plan, CpuPlan) else "npu",
        "title": plan.title,
        "origin": list(plan.origin),
        "reads": sorted(plan.reads()),
        "writes": sorted(plan.writes()),
    }
    if isinstance(plan, CpuPlan):
        return data | {"op": plan.op}
    return data | {"blob": blobs[step.number], "units": sorted(step.epoch.units) if step.epoch else []}


def _buffer(home: Placed, graph: Graph) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": home.buffer.name,
        "kind": str(home.buffer.kind),
        "address": home.address,
        "size_bytes": home.buffer.size_bytes,
        "reserved_bytes": home.reserved_bytes,
        "pool": home.pool,
        "first_step": home.first + 1,
        "last_step": home.last + 1,
    }
    if home.buffer.offset:
        data["stored_offset"] = home.buffer.offset  # memory holds code + offset
    if home.buffer.coarse:  # memory holds round(code / 2^dropped_bits) + offset
        data |= {"stored_offset": home.buffer.coarse.zero, "stored_dropped_bits": home.buffer.coarse.dropped}
    tensor = graph.tensors.get(home.buffer.name)
    if tensor is None:
        return data
    quant = {"scale": tensor.scale, "zero_point": tensor.zero_point} if tensor.quant is not None else {}
    return data | {"shape": list(tensor.shape), "dtype": tensor.dtype} | quant


def to_json(document: Mapping[str, Any]) -> bytes:
    return (_json(document) + "\n").encode()


def _json(value: Any, line: str = "\n") -> str:
    """What `json.dumps(value, indent=1)` gives, which takes twice as long; `line` begins the line of the value."""
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is int:
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return float.__repr__(value)  # NumPy's are shown with their type
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    inner = f"{line} "
    if isinstance(value, dict):
        if not value:
            return "{}"
        rows = [f"{encode_basestring_ascii(key)}: {_json(item, inner)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(rows)}{line}}}"
    if isinstance(value, (list, tuple)):
        if not value:
            return "[]"
        return f"[{inner}{f',{inner}'.join([_json(item, inner) for item in value])}{line}]"
    return json.dumps(value)


def _plain(text: str) -> str:
    """Names come from the model: nothing in them may end a comment line."""
    return "".join(c if c.isprintable() else "?" for c in text)
