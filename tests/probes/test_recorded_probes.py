"""Every probe's program, where its data lie, what it expects and what its cycles are divided by are a record: what was
asked of a chip once is asked again word for word, or the difference says what changed."""

from __future__ import annotations

import hashlib

from atonc.compiler.place import board
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.build import DEFAULT_BOARD, build_all
from atonc.delivery.probes.log import features_of
from tests.outcomes import Outcomes, figure


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def test_every_probe_is_that_of_the_record(outcomes: Outcomes) -> None:
    for built in build_all(PROBES, board(DEFAULT_BOARD)):
        probe, words = built.probe, b"".join(word.to_bytes(8, "little") for word in built.words)
        places = [f"{home.pool} {home.address:#x} {home.size_bytes}" for home in built.network.program.placed.values()]
        given = [digest(home.buffer.data or b"") for home in built.constants]
        answers = [f"{one.name} {digest(one.data)}" for one in built.answers]
        measured = [probe.measures, figure(probe.units), probe.baseline, probe.rate, figure(probe.expects)]
        needs = [built.needs_keys, built.uses_hyperram, built.flash_used, built.must_differ, built.transfer]
        features = sorted(map(str, features_of(probe)))
        outcomes.add(probe.name, digest(words), digest(built.stimulus), *places, *given, *answers,
                     *measured, *needs, digest("".join(features).encode()))  # fmt: skip
