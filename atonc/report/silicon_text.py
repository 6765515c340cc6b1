"""Grades of a program as lines: how many epochs are like published ones, and what allows or refuses the others."""

from __future__ import annotations

from atonc.hw.safety.evidence.arguments import ARGUMENTS
from atonc.hw.safety.evidence.board import NO_ANSWERS, BoardEvidence
from atonc.hw.safety.evidence.grades import Grade
from atonc.hw.safety.evidence.summary import FormCount, Summary

_MOST = 5  # forms that are listed of each kind


def lines(found: Summary | None, verbose: bool = False) -> list[str]:
    if found is None or not sum(found.epochs.values()):
        return []
    out = [f"silicon: {head(found)}", *_answers(found.answers)]
    unseen = [form for form in found.forms if form.graded.grade == Grade.UNSEEN]
    if unseen:
        out += ["  unseen: no published program comes near", *_listed(unseen, verbose)]
    for argument in ARGUMENTS:
        if argument.id in found.by_argument:
            asked = ", confirmed by probes on the board" if argument.id in found.answers.supported else ""
            out.append(f"  {argument.id} {argument.title}: {found.by_argument[argument.id]} epochs{asked}")
            forms = [form for form in found.forms if form.graded.argument == argument.id]
            out += _listed(forms, verbose) if verbose else []
    return out


def _answers(found: BoardEvidence) -> list[str]:
    """What the board said of itself."""
    if found == NO_ANSWERS:
        return []
    said = [f"{len(found.confirmed)} forms confirmed, {len(found.refuted)} refuted"]
    said += [f"{', '.join(sorted(found.distrusted))} disproved"] if found.distrusted else []
    said += [f"{', '.join(name for name, _ in found.constants)} measured"] if found.constants else []
    return [f"  {found.board} answered: {'; '.join(said)}"]


def head(found: Summary) -> str:
    """`12 epochs seen in published programs, 30 within what was seen, 4 composed of seen parts, 0 unseen`."""
    words = {
        Grade.SEEN: "seen in published programs",
        Grade.WITHIN: "within what was seen",
        Grade.COMPOSED: "composed of seen parts",
        Grade.UNSEEN: "unseen",
    }
    return ", ".join(f"{found.epochs[grade]}{' epochs' * (not n)} {words[grade]}" for n, grade in enumerate(Grade))


def _listed(forms: list[FormCount], verbose: bool) -> list[str]:
    shown = forms if verbose else forms[:_MOST]
    out = [f"     {form.graded}: {form.epochs} epochs, first {form.first}" for form in shown]
    return out if len(shown) == len(forms) else [*out, f"     and {len(forms) - len(shown)} more (-v shows all)"]
