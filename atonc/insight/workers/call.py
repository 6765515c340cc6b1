"""A function by its name, and what calling it gave: the same in this process, in a worker of ours and on a cluster."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from atonc.insight.workers.unit import WorkUnit, code_version, from_document
from atonc.machine.base import errors
from atonc.machine.base.errors import AtoncError, InputError, InternalError, ToolError

Function = Callable[[WorkUnit], bytes]
Answer = tuple[dict[str, Any], bytes]  # {} and the result, or {"error": ...} and nothing


def name_of(function: Function | str) -> str:
    """`module:function`, which another process can find."""
    if isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not name.isidentifier() or module in ("", "__main__"):
        raise InputError(f"workers cannot find {name or function!r}", remedy="give a function of an importable module")
    return f"{module}:{name}"


def find(name: str) -> Function:
    module, _, attribute = name.partition(":")
    try:
        found: Function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"workers cannot find {name}: {error}") from None
    return found


def answer(function: str, document: Mapping[str, Any], version: str) -> Answer:
    """Never raises: whatever went wrong is part of the answer."""
    try:
        if version != code_version():
            raise ToolError(
                f"a worker has atonc {code_version()}, here is {version}",
                remedy="install the same version of atonc and of its packages on every machine",
            )
        result = find(function)(from_document(document))
        if not isinstance(result, bytes):
            raise InternalError(f"{function} gave {type(result).__name__}, not bytes")
        return {}, result
    except AtoncError as error:
        return {"error": error.as_dict()}, b""
    except MemoryError:
        return {"error": ToolError("needs more memory than there is", where=str(document["title"])).as_dict()}, b""
    except Exception as error:
        what = f"atonc itself failed: {type(error).__name__}: {str(error)[:300]}"
        return {"error": InternalError(what, where=str(document["title"])).as_dict()}, b""


def as_error(words: Mapping[str, Any]) -> AtoncError:
    """The error of an answer, of its own kind where it is one of ours."""
    kind = getattr(errors, str(words["kind"]), None)
    known = kind if isinstance(kind, type) and issubclass(kind, AtoncError) else AtoncError
    error = known(words["what"], where=words["where"], rule=words["rule"], remedy=words["remedy"])
    error.details = tuple(words.get("details", ()))
    error.exit_code = int(words["exit_code"])
    return error
