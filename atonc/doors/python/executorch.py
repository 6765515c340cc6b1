"""`atonc.executorch`: quantiser, partitioner and backend for ExecuTorch (docs/executorch.md), and our backend in its
runtime on this machine. PyTorch and ExecuTorch are imported when one of these names is asked for, not before."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from atonc.machine.base.errors import not_loaded

if TYPE_CHECKING:
    from atonc.delivery.executorch.backend import AtonBackend
    from atonc.delivery.executorch.partitioner import AtonPartitioner, Undelegated
    from atonc.delivery.executorch.quantizer import AtonQuantizer
    from atonc.delivery.executorch.runtime import register

__all__ = ["AtonBackend", "AtonPartitioner", "AtonQuantizer", "Undelegated", "register"]
_PLACES = {
    "AtonBackend": "backend",
    "AtonPartitioner": "partitioner",
    "AtonQuantizer": "quantizer",
    "Undelegated": "partitioner",
    "register": "runtime",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'atonc.executorch' has no attribute {name!r}")
    try:
        return getattr(import_module(f"atonc.delivery.executorch.{_PLACES[name]}"), name)
    except ImportError as error:
        package = (error.name or "executorch").partition(".")[0]
        raise not_loaded(error, package, "'atonc[executorch]'") from None


def __dir__() -> list[str]:
    return list(__all__)
