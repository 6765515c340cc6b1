"""What the user may ask of `atonc evaluate`: every option once."""

from __future__ import annotations

from typing import Any

from atonc.compiler.request.options import OUTPUT, frames, share, whole
from atonc.machine.base.declare import RARE, Takes, check, declared, default_of, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

DATA = "the data"
FIGURES = "what is measured"
WORK = "how the work is done"
METRICS = ("auto", "top", "map", "keypoints", "iou", "edit", "distance")
OF_ARRAYS = ("auto", "top", "iou", "edit", "distance")  # those that need no boxes
DECODERS = ("auto", "yolov8", "yolov5", "yolov2", "yolox", "st_yolox", "ssd", "st_ssd", "blazeface",
            "yolov8_heads", "yolo26_heads", "corners", "corners_logits", "centres", "centres_logits")  # fmt: skip
CANDIDATES = 512  # that generated C compares with each other
SCORE = 0.5  # above which boxes are kept where neither user nor model says

LOCAL, LOCAL_RARE = Takes(local=True), Takes(local=True, rare=True)


def _anchors(title: str) -> Any:
    said = "in shares of the input: W,H of each anchor of st_yolox, yolov2; or a .npy: x, y, w, h of each box of ssd"
    return option("", "--anchors", title, said, metavar="W,H,...", takes=LOCAL_RARE)


def require_metric(name: str) -> None:
    if name not in METRICS and ":" not in name:
        known = f"metrics are {', '.join(METRICS)}, or a function of yours as module:function"
        raise InputError(f"there is no metric {name[:60]!r}", rule=known)


@dataclass(frozen=True)
class PostOptions:
    """Options of `generate` for detectors: boxes as C, by the decoders of `evaluate`."""

    post: str = option(
        "", "--post", OUTPUT, "also NAME_post.c, .h: boxes from the outputs of a detector, by its family",
        takes=Takes(choices=DECODERS, rare=True),
    )  # fmt: skip
    post_score: float = option(
        0.0, "--post-score", OUTPUT, f"boxes have a score above it; 0: that of the model's suppression, or {SCORE:g}",
        metavar="SCORE", parse=share, takes=RARE,
    )  # fmt: skip
    post_iou: float = option(
        0.0, "--post-iou", OUTPUT, "of boxes of a class that overlap more, the best one stays; 0: as the model's "
        "suppression has it, or the family",
        metavar="SHARE", parse=share, takes=RARE,
    )  # fmt: skip
    post_boxes: int = option(
        20, "--post-boxes", OUTPUT, f"room for this many, up to {CANDIDATES}", metavar="N", parse=whole, takes=RARE
    )
    anchors: str = _anchors(OUTPUT)

    def __post_init__(self) -> None:
        check(self)
        default = {member.name: default_of(member) for member, _ in declared(PostOptions)}
        said = [name for name, value in default.items() if getattr(self, name) != value]
        if said and not self.post:
            flag = f"--{said[0].replace('_', '-')}"
            raise InputError(f"{flag} without --post", rule="it is about the boxes of --post", remedy="--post auto")
        if not 0 <= self.post_score < 1:
            raise InputError(f"a score above {self.post_score:g}", where="--post-score", rule="it is below 1")
        if not 0 <= self.post_iou <= 1:
            raise InputError(f"an overlap of {self.post_iou:g}", where="--post-iou", rule="it is a share, from 0 to 1")
        if not 1 <= self.post_boxes <= CANDIDATES:
            raise InputError(f"room for {self.post_boxes} boxes", where="--post-boxes", rule=f"1 to {CANDIDATES}")


@dataclass(frozen=True)
class EvaluateOptions:
    """Arguments of `atonc.evaluate`; flags of the command line with their help; rows of the reference."""

    data: str = option(
        "", "--data", DATA,
        "a folder with a folder of images for each class; a COCO .json; .npz; .csv; or module:function, a generator",
        metavar="DATA", takes=LOCAL,
    )  # fmt: skip
    images: str = option(
        "", "--images", DATA, "the folder of the images that a COCO file names", metavar="DIR", takes=LOCAL
    )
    limit: int = option(0, "--limit", DATA, "only this many samples, evenly spread; 0: all", metavar="N", parse=whole)
    frames: int = option(
        0, "--frames", DATA, "of a network with states: a sample is a sequence of so many frames, its answer that of "
        "the last one", metavar="N", parse=frames,
    )  # fmt: skip
    resize: str = option(
        "stretch", "--resize", DATA, "how images become as large as the input",
        takes=Takes(choices=("stretch", "letterbox", "crop")),
    )  # fmt: skip
    normalise: str = option(
        "", "--normalise --normalize", DATA,
        "real values are (pixel - MEAN) / STD, pixels 0..255; three of each: M,M,M/S,S,S", metavar="MEAN/STD",
    )  # fmt: skip
    colours: str = option(
        "rgb", "--colours --colors", DATA, "order of the channels", takes=Takes(choices=("rgb", "bgr"), rare=True)
    )
    metric: str = option(
        "auto", "--metric", FIGURES, f"{', '.join(METRICS)}, or your own module:function", metavar="METRIC",
        takes=Takes(offered=OF_ARRAYS),  # a function of the server's is nothing for visitors
    )  # fmt: skip
    decoder: str = option(
        "auto", "--decoder", FIGURES, "how outputs become boxes: a family (docs/post_processing.md)", metavar="FAMILY",
        takes=Takes(choices=DECODERS),
    )  # fmt: skip
    anchors: str = _anchors(FIGURES)
    iou: float = option(
        0.0, "--iou", FIGURES, "of boxes of a class that overlap more, the best one counts; 0: as the family has it",
        metavar="SHARE", parse=share, takes=RARE,
    )  # fmt: skip
    blank: int = option(
        0, "--blank", FIGURES, "of the metric edit: the blank class of CTC; -1: the last", metavar="N", parse=int,
        takes=RARE,
    )  # fmt: skip
    float_model: str = option("", "--float", FIGURES, "the float model, to compare with", metavar="FILE", takes=LOCAL)
    int8: bool = option(
        True, "--no-int8", FIGURES, "do not run the int8 model's own reference kernels", takes=Takes(rare=True)
    )
    processes: int = option(
        0, "--processes", WORK, "processes of this machine; 0: one per core", metavar="N", parse=whole, takes=LOCAL_RARE
    )
    scheduler: str = option(
        "", "--scheduler", WORK, "a Dask cluster instead: tcp://HOST:PORT, or local", metavar="ADDRESS",
        takes=LOCAL_RARE,
    )  # fmt: skip
    samples_together: int = option(
        16, "--samples-together", WORK, "samples of a unit of work, which is lost or kept as a whole", metavar="N",
        parse=whole, takes=LOCAL_RARE,
    )  # fmt: skip
    fresh: bool = option(
        False, "--fresh", WORK, "forget what an interrupted run has left in the output folder", takes=LOCAL
    )

    def __post_init__(self) -> None:
        check(self)
        for name in ("limit", "processes"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}", remedy="give 0 or more")
        if not 0 <= self.iou <= 1:
            raise InputError(f"an overlap of {self.iou:g}", where="--iou", rule="it is a share, from 0 to 1")
        if not 1 <= self.samples_together <= 1000:
            raise InputError(f"{self.samples_together} samples together", rule="1 to 1000 are a unit of work")
        require_metric(self.metric)
        self.normalisation()

    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Means and deviations of the channels, one or as many as there are."""
        if not self.normalise:
            return None
        try:
            mean, deviation = (tuple(map(float, part.split(","))) for part in self.normalise.split("/"))
            if len(mean) not in (1, 3) or len(deviation) not in (1, 3) or not all(0 < d < 1e6 for d in deviation):
                raise ValueError
        except ValueError:
            raise InputError(
                f"{self.normalise[:60]!r} is no normalisation", remedy="write MEAN/STD, such as 127.5/127.5"
            ) from None
        return mean, deviation
