"""Depth: no published application shows depth maps, so the application's own post-processing is named."""

from __future__ import annotations

from atonc.delivery.deploy.app_config.types import Case, Family, both


def _check(case: Case) -> None:
    height, width, _ = case.model.image
    shape = case.model.output().shape
    if sorted(shape[1:]) != sorted((height, width, 1)) and sorted(shape[1:]) != sorted((height, width)):
        raise case.wrong("general.model_type", f"the output is {'x'.join(map(str, shape))}, no map of the picture")


DEPTH = Family(
    "depth_estimation",
    ("",),
    postprocess=both({"float32": "CUSTOM", "int8": "CUSTOM", "uint8": "CUSTOM"}),
    check=_check,
)
