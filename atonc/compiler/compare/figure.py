"""A simple person of soft-edged limbs: detectors and pose models answer to it, so that their outputs mean something."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]
Point = tuple[float, float]  # (down, right) in units of the body height, from the top of the head

SOFTNESS = 0.003  # of the picture's height
UNSEEN = 40.0  # times the softness away from a limb, float64 cannot tell the picture from one without the limb


@dataclass(frozen=True)
class Limb:
    """A line with round ends."""

    start: Point
    end: Point
    radius: float
    colour: str


def body(rng: np.random.Generator) -> list[Limb]:
    """Back to front. Arms and legs swing a little."""
    swing = rng.uniform(-0.05, 0.05, 6)
    limbs = []
    for side, (knee, foot, elbow) in ((-1, swing[:3]), (1, swing[3:])):
        limbs += [
            Limb((0.52, side * 0.07), (0.75, side * 0.085 + knee), 0.050, "trousers"),
            Limb((0.75, side * 0.085 + knee), (0.97, side * 0.09 + foot), 0.040, "trousers"),
            Limb((0.97, side * 0.09 + foot), (0.98, side * 0.13 + foot), 0.025, "shoes"),
            Limb((0.22, side * 0.12), (0.38, side * 0.20 + elbow), 0.035, "shirt"),
            Limb((0.38, side * 0.20 + elbow), (0.53, side * 0.215 + elbow), 0.028, "skin"),
        ]
    limbs += [
        Limb((0.12, 0.0), (0.18, 0.0), 0.035, "skin"),
        Limb((0.22, 0.0), (0.50, 0.0), 0.110, "shirt"),
        Limb((0.04, 0.0), (0.065, 0.0), 0.075, "hair"),
        Limb((0.07, 0.0), (0.095, 0.0), 0.060, "skin"),
        Limb((0.08, 0.0), (0.098, 0.0), 0.006, "shadow"),
        Limb((0.12, -0.015), (0.12, 0.015), 0.006, "lips"),
    ]
    for side in (-1, 1):
        limbs.append(Limb((0.07, side * 0.025), (0.07, side * 0.022), 0.008, "eyes"))
        limbs.append(Limb((0.055, side * 0.034), (0.055, side * 0.018), 0.004, "hair"))
    return limbs


def colours(rng: np.random.Generator) -> dict[str, Real]:
    skin = np.array([0.82, 0.62, 0.50]) * rng.uniform(0.6, 1.1)
    return {
        "skin": skin,
        "shadow": skin * 0.8,
        "lips": skin * np.array([0.8, 0.5, 0.55]),
        "hair": np.array([0.20, 0.13, 0.08]) * rng.uniform(0.5, 1.5),
        "eyes": np.array([0.08, 0.06, 0.05]),
        "shirt": rng.uniform(0.1, 0.9, 3),
        "trousers": rng.uniform(0.05, 0.5, 3),
        "shoes": np.array([0.1, 0.08, 0.07]),
    }


def draw_person(picture: Real, rng: np.random.Generator, centre: float, top: float, size: float) -> Real:
    """The picture [height, width, 3] with a person; positions and size are fractions of width and height."""
    height, width, _ = picture.shape
    y = ((np.arange(height) + 0.5) / height - top)[:, None] / size
    x = ((np.arange(width) + 0.5) / width - centre)[None, :] / size * (width / height)
    paint = colours(rng)
    light = 1.0 + 0.25 * np.clip(x / 0.2, -1.0, 1.0)[..., None]
    picture = picture.copy()
    for limb in body(rng):
        rows, columns = _near(limb, y, x, UNSEEN * SOFTNESS / size)
        mask = _coverage(limb, y[rows], x[:, columns], SOFTNESS / size)[..., None]
        part = picture[rows, columns]
        part *= 1.0 - mask
        part += mask * np.clip(paint[limb.colour] * light[:, columns], 0.0, 1.0)
    return picture


def _near(limb: Limb, y: Real, x: Real, margin: float) -> tuple[slice, slice]:
    """The rows and columns that are no further than `margin` from the limb."""
    ends = zip((y.ravel(), x.ravel()), limb.start, limb.end, strict=True)
    reach = margin + limb.radius
    found = [np.searchsorted(places, (min(a, b) - reach, max(a, b) + reach)) for places, a, b in ends]
    return slice(*map(int, found[0])), slice(*map(int, found[1]))


def _coverage(limb: Limb, y: Real, x: Real, softness: float) -> Real:
    """1 inside, 0 outside, soft in between."""
    (y0, x0), (y1, x1) = limb.start, limb.end
    dy, dx = y1 - y0, x1 - x0
    along = np.clip(((y - y0) * dy + (x - x0) * dx) / (dy * dy + dx * dx), 0.0, 1.0)
    outside = np.hypot(y - y0 - along * dy, x - x0 - along * dx) - limb.radius
    return 1.0 / (1.0 + np.exp(np.clip(outside / softness, -50.0, 50.0)))
