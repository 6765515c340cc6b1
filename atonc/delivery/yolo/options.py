"""What the user may ask of `atonc yolo`: every option once, in the words of Ultralytics where they have one."""

from __future__ import annotations

from atonc.compiler.request.options import whole
from atonc.insight.evaluating.options import CANDIDATES, DATA, FIGURES, EvaluateOptions
from atonc.insight.quantizing.types import RESULT, QuantizeOptions, number
from atonc.machine.base.declare import RARE, again, check, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

BOXES = "the boxes in C"


@dataclass(frozen=True)
class YoloOptions:
    """Flags of the command line with their help, in their order."""

    imgsz: int = option(
        0, "--imgsz", DATA, "of a .pt, or of an export that leaves it open: pixels of a side; 0: as it was trained",
        metavar="PIXELS", parse=whole,
    )  # fmt: skip
    samples: int = again(QuantizeOptions, "samples", DATA)
    limit: int = again(EvaluateOptions, "limit", FIGURES)
    evaluate: bool = option(True, "--no-evaluate", FIGURES, "leave the accuracy out: it is what takes longest")
    processes: int = again(EvaluateOptions, "processes", FIGURES)
    objective: str = again(QuantizeOptions, "objective", RESULT)
    board: str = again(QuantizeOptions, "board", RESULT)
    conf: float = option(0.25, "--conf", BOXES, "boxes have a score above it", metavar="SCORE", parse=number)
    iou: float = option(
        0.7, "--iou", BOXES, "of boxes of a class that overlap more, the best one stays; a head that needs no "
        "suppression has none", metavar="SHARE", parse=number,
    )  # fmt: skip
    max_det: int = option(
        20, "--max-det", BOXES, f"room for this many, up to {CANDIDATES}", metavar="N", parse=whole, takes=RARE
    )
    getting_started: bool = option(
        False, "--getting-started", BOXES, "also a network that ends with decoded boxes, for ST's "
        "GettingStarted-ObjectDetection: with app_config.h and a file for atonc deploy",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check(self)
        if not 0 < self.conf < 1 or not 0 < self.iou <= 1:
            raise InputError(
                f"--conf {self.conf:g} and --iou {self.iou:g}", rule="a score is between 0 and 1, an overlap up to 1"
            )
        if self.imgsz < 0 or self.imgsz % 32:
            raise InputError(
                f"{self.imgsz} pixels", where="--imgsz", rule="multiples of 32, the widest stride", remedy="such as 256"
            )
