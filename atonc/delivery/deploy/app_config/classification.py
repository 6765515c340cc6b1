"""Image classification: the application needs the names only."""

from __future__ import annotations

from math import prod

from atonc.delivery.deploy.app_config.types import Case, Family
from atonc.machine.base.words import count


def _check(case: Case) -> None:
    found = prod(case.model.output().shape)
    if found != len(case.classes):
        what = f"lists {count(len(case.classes), 'class', 'classes')}, the model has {found}"
        raise case.wrong("dataset.class_names", what, "list the classes that the model was trained on")


CLASSIFICATION = Family("image_classification", ("",), check=_check)
