"""`atonc app build` that is killed leaves the whole former build, the whole new one, or nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from atonc.delivery.application import building
from atonc.delivery.application.figures import figures
from atonc.delivery.application.options import AppOptions
from atonc.machine.base.build_folder import read_whole, write_whole
from atonc.machine.base.disk import HIDDEN
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


def died_at(folder: Path, files: dict[str, bytes], move: int) -> None:
    with unlucky.child(lambda: unlucky.write_and_die(folder, files, move)) as process:
        _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def test_nothing_or_the_whole_folder(new: dict[str, bytes], tmp_path: Path) -> None:
    """In front of the manifest, and of files that are put into their places."""
    for move in (0, *range(1, len(new) + 1, 3), len(new)):
        folder = tmp_path / str(move)
        died_at(folder, new, move)
        assert seen(folder) == (new if move else {}), move


def test_the_former_build_or_the_whole_new_one(new: dict[str, bytes], tmp_path: Path) -> None:
    old = {name: data[::-1] for name, data in new.items() if not name.startswith("second")}
    for move in (0, 1, len(new) // 2, len(new)):
        folder = tmp_path / str(move)
        write_whole(folder, old, unlucky.NAME)
        died_at(folder, new, move)
        assert seen(folder) == (new if move else old), move


def test_a_build_that_dies_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, checked and killed: no folder."""
    monkeypatch.setattr(building, "planned", lambda asked: plan())
    monkeypatch.setattr(building, "require_sound", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with unlucky.child(lambda: building.build(application(), tmp_path / "out") and None) as process:
        os.waitpid(process, 0)
    assert not (tmp_path / "out").exists()
