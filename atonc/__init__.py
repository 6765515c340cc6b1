"""atonc: open compiler, emulator and deployment toolchain for the STM32N6 Neural-ART NPU."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import atonc.doors.python.executorch as executorch
    import atonc.doors.python.torch as torch
    import atonc.machine.base.errors as errors
    from atonc.doors.python.interface import (
        __version__,
        application,
        check_firmware,
        compare,
        compile,
        describe_board,
        estimate,
        evaluate,
        explain,
        explain_accuracy,
        front_end,
        load,
        quantize,
        relocate,
        run,
        sweep,
        update_network,
        validate,
    )

__all__ = [
    "__version__",
    "application",
    "check_firmware",
    "compare",
    "compile",
    "describe_board",
    "errors",
    "estimate",
    "evaluate",
    "executorch",
    "explain",
    "explain_accuracy",
    "front_end",
    "load",
    "quantize",
    "relocate",
    "run",
    "sweep",
    "torch",
    "update_network",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Names are looked up when somebody asks: no room imports this file, and this file none before."""
    if name in _DOORS:
        return import_module(f"atonc.doors.python.{name}")
    if name in __all__:
        return getattr(import_module("atonc.doors.python.interface"), name)
    raise AttributeError(f"module 'atonc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Door(ModuleType):
    """What `import atonc.torch` finds: a name for the module, which is loaded when something of it is asked for.
    Whoever looks through all modules for their files does not ask."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self.__name__.replace(".", ".doors.python.", 1)), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__.replace(".", ".doors.python.", 1)))


_DOORS = {
    "executorch": "Delegates for ExecuTorch (docs/executorch.md).",
    "torch": "PyTorch modules in (docs/pytorch.md).",
}
for _name, _about in _DOORS.items():
    sys.modules[f"{__name__}.{_name}"] = _Door(f"{__name__}.{_name}", _about)
