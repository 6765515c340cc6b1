"""Inputs by name, one sample or many; and a sequence of frames through a network that keeps states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count, listed
from atonc.machine.emu.tensors import squeezed

Array = NDArray[Any]
Outputs = dict[str, Array]
Shapes = Mapping[str, tuple[int, ...]]

STATE_RULE = "a state is no input: each frame gets what the frame before has left"
FRAME_RULE = "the first axis counts frames, in their order: data[k] is one frame"


def by_name(names: Sequence[str], given: Mapping[str, Any], states: Sequence[str] = ()) -> dict[str, Array]:
    """Exactly the inputs of these names."""
    if not isinstance(given, Mapping):
        raise InputError("inputs are given by name", remedy=f"give a dictionary with {', '.join(map(repr, names))}")
    refuse_states(given, states)
    missing, unknown = [n for n in names if n not in given], [n for n in given if n not in names]
    if not missing and not unknown:
        return {name: np.asarray(given[name]) for name in names}
    sentences = []
    for name in unknown:
        near = get_close_matches(str(name), names, n=1, cutoff=0.5)
        suggestion = f" (did you mean {near[0]!r}?)" if near else ""
        sentences.append(f"the network has no input {name!r}{suggestion}")
    sentences += [f"no value for input {name!r}" for name in missing]
    remedy = f"the inputs are {', '.join(map(repr, names))}"
    raise InputError("; ".join(sentences), rule="every input has exactly one value", remedy=remedy)


def refuse_states(given: Mapping[str, Any], states: Sequence[str], where: str = "") -> None:
    """Who gives a value for a state would believe that it counts."""
    found = [name for name in given if name in states]
    if found:
        raise InputError(f"{found[0]!r} is a state that the network keeps by itself", where=where, rule=STATE_RULE,
                         remedy="leave it out; compile with --state none to carry it yourself")  # fmt: skip


def given_by_name(names: Sequence[str], value: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """A dictionary, keyword arguments, or the one value of the one input."""
    if value is None or isinstance(value, Mapping):
        return {**(value or {}), **named}
    if len(names) != 1 or named:
        raise InputError(
            f"the network has {len(names)} inputs", remedy=f"give a dictionary with {', '.join(map(repr, names))}"
        )
    return {names[0]: value}


def is_picture(value: Any) -> bool:
    return isinstance(value, str | PathLike) or (hasattr(value, "convert") and hasattr(value, "resize"))


def samples_of(shapes: Shapes, given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The samples of a batch; None where the values are one sample, or do not fit: whoever takes them says so."""
    counts = {name: _samples(shapes[name], value) for name, value in given.items() if name in shapes}
    if not any(counts.values()):
        return None
    if len(set(counts.values())) > 1:
        found = [f"{name!r} {count(number, 'sample') if number else 'one alone'}" for name, number in counts.items()]
        raise InputError(f"inputs of unlike batches: {listed(found)}", rule="all inputs have as many samples")
    number = next(iter(counts.values()))
    return [{name: value[k] for name, value in given.items()} for k in range(number)]


def _samples(shape: tuple[int, ...], value: Any) -> int:
    """How many samples a value holds along a first axis of its own; 0: it is one."""
    if is_picture(value):
        return 0
    if isinstance(value, list | tuple) and value and all(map(is_picture, value)):
        return len(value)
    try:
        found = np.shape(value)
    except ValueError:
        raise InputError("the values are lists of unlike lengths", remedy="give an array") from None
    alone = squeezed(found) == squeezed(shape)
    return found[0] if found and not alone and squeezed(found[1:]) == squeezed(shape) else 0


def frames_of(shapes: Shapes, given: Mapping[str, Any], where: str = "") -> list[dict[str, Any]]:
    """The frames of a sequence; one alone is a sequence, too. Unlike samples they are never guessed from the number of
    values: a table with its axes exchanged would pass for other frames."""
    found = samples_of(shapes, given)
    if found is not None:
        return found
    for name, shape in shapes.items():
        if name in given and not is_picture(given[name]) and squeezed(np.shape(given[name])) != squeezed(shape):
            seen, wanted = ("x".join(map(str, one)) or "none" for one in (np.shape(given[name]), shape))
            raise InputError(f"frames of input {name!r} have shape {wanted}, the data {seen}", where=where,
                             rule=FRAME_RULE, remedy=f"give an array of shape N x {wanted}")  # fmt: skip
    return [dict(given)]


def joined(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Outputs of all samples: along the model's own first axis where that counts one, else along a new one."""
    found = {}
    for name, first in runs[0].items():
        values = [run[name] for run in runs]
        found[name] = np.concatenate(values) if first.shape[:1] == (1,) else np.stack(values)
    return found


def as_declared(value: Array, turned: Sequence[int] | None) -> Array:
    """A copy of a state in the order of the model's axes. `turned`: those of its memory's, where they are others."""
    return value.transpose(np.argsort(turned)).copy() if turned else value.copy()


class Session:
    """A sequence: frame by frame through a network that keeps its states until `reset()`.

    `session(frame)` gives the outputs of one frame by name, `session.run(frames)` those of many, one after the other;
    `session.states` are the states as the last frame left them, `session.frames` counts frames since the reset.
    """

    def __init__(
        self,
        shapes: Shapes,
        run: Callable[[Mapping[str, Any]], Outputs],
        reset: Callable[[], None],
        states: Callable[[], Outputs],
    ) -> None:
        self.shapes, self._run, self._reset, self._states = shapes, run, reset, states
        self.reset()

    def reset(self) -> None:
        """States get their first values: where a sequence begins."""
        self._reset()
        self.frames = 0

    @property
    def states(self) -> Outputs:
        return self._states()

    def __call__(self, frame: Any = None, **named: Any) -> Outputs:
        """`frame`: a dictionary by name, or the value of the only input."""
        given = given_by_name(tuple(self.shapes), frame, named)
        if samples_of(self.shapes, given) is not None:
            remedy = "session.run(frames) takes many"
            raise InputError("these are several frames", rule="a call takes one frame", remedy=remedy)
        return self.frame(given)

    def frame(self, given: Mapping[str, Any]) -> Outputs:
        """The same with values by name, as `shapes` has them."""
        found = self._run(given)
        self.frames += 1
        return found

    def run(self, frames: Any = None, **named: Any) -> Outputs:
        """Outputs as many as frames; states go on from the frame before, also from one call to the next."""
        given = given_by_name(tuple(self.shapes), frames, named)
        return joined([self.frame(frame) for frame in frames_of(self.shapes, given)])

    def __repr__(self) -> str:
        held = sum(value.nbytes for value in self.states.values())
        return f"<session: {count(self.frames, 'frame')} since the reset, {held:,} bytes of states>"
