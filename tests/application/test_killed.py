"""`atonc app build` that is killed leaves the whole former build, the whole new one, or nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from atonc.delivery.application import building
from atonc.delivery.application.planning import figures
from atonc.delivery.application.types import OWNER, AppOptions
from atonc.machine.base.build_folder import read_whole, write_whole
from atonc.machine.base.disk import HIDDEN
from tests import killed
from tests import unlucky_writers as unlucky
from tests.application.made import application, plan

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need processes that fork")


@pytest.fixture(scope="module")
def new() -> dict[str, bytes]:
    found = plan()
    return dict(building.files_of_application(found, figures(found), AppOptions()).files)


def visible(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.glob("*") if not path.name.startswith(HIDDEN)]
    return {path.name: path.read_bytes() for path in files}


def seen(folder: Path) -> dict[str, bytes]:
    """What any reader of a build finds, which ends what a dead writer began."""
    found = read_whole(folder, lambda: visible(folder))
    return {name: data for name, data in found.items() if not name.endswith("_manifest.json")}


def writer(folder: Path, files: dict[str, bytes]) -> Callable[[], object]:
    return partial(write_whole, folder, files, OWNER)


def test_wherever_it_is_killed(new: dict[str, bytes], tmp_path: Path) -> None:
    """At a sample of its file system calls, over a former build and into nothing. Who knows nothing of atonc finds all
    files of before, all new ones, or not all C files; readers of atonc one whole build or nothing."""
    former = {name: data[::-1] for name, data in new.items() if not name.startswith("second")}
    needed = [name for name in new if name.endswith(".c")]
    for old in (former, {}):
        folder, states = tmp_path / str(len(old)), [{}]
        for files in filter(None, (old, new)):
            if files is new:
                _, calls = killed.calls_of(writer(folder, new), folder)
            else:
                writer(folder, files)()
            states.append(killed.state_of(folder))
        kinds = set()
        for number in range(calls - 1, -1, -7):
            shutil.rmtree(folder)
            if old:
                writer(folder, old)()
            assert killed.kill_at(writer(folder, new), folder, number)
            kinds.add(killed.judged(killed.state_of(folder), states[-2], states[-1], needed))
            assert seen(folder) in (old, new), number
        assert kinds == {killed.OLD, killed.NEW, killed.WITHOUT}


def test_a_build_that_dies_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, checked and killed: no folder."""
    monkeypatch.setattr(building, "planned", lambda asked: plan())
    monkeypatch.setattr(building, "require_sound", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with unlucky.child(lambda: building.build(application(), tmp_path / "out") and None) as process:
        os.waitpid(process, 0)
    assert not (tmp_path / "out").exists()
