"""A .pt as ONNX, by Ultralytics' own package where the user has it (AGPL-3.0: it is imported here and nowhere else, for
nothing but this). A .pt is a program that Python runs when it is opened: give it your own."""

from __future__ import annotations

import contextlib
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from atonc.machine.base.errors import InputError, ToolError


def require_package(model: Path) -> None:
    if find_spec("ultralytics") is None:
        raise ToolError(
            "a .pt is read by Ultralytics' package, which is not installed",
            where=str(model),
            remedy=f"pip install ultralytics (AGPL-3.0); or, where it is: yolo export model={model.name} format=onnx, "
            "then give the .onnx",
        )


def exported(model: Path, imgsz: int, target: Path) -> Path:
    """Writes `target`; what the package prints goes to standard error. A head that needs no suppression is kept."""
    require_package(model)
    copy = target.with_name(f"{target.stem}_copy.pt")  # the package writes beside the file that it reads
    shutil.copyfile(model, copy)
    with contextlib.redirect_stdout(sys.stderr):
        from ultralytics import YOLO  # type: ignore[import-not-found, unused-ignore]

        try:
            network = YOLO(str(copy))
            alone = getattr(network.model.model[-1], "one2one_cv2", None) is not None
            words: dict[str, Any] = {"nms": False} if alone else {}
            if imgsz:
                words["imgsz"] = imgsz
            Path(network.export(format="onnx", simplify=False, dynamic=False, batch=1, **words)).replace(target)
        except Exception as error:  # whatever another package does with a file
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise InputError(f"Ultralytics' package cannot export it: {said}", where=str(model)) from None
        finally:
            copy.unlink()
    return target
