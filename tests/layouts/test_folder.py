"""A folder of a layout: whole or not at all, and never over what the user changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from atonc.delivery.layouts import every as layout_folder
from atonc.delivery.layouts.every import MANIFEST, write_folder
from atonc.machine.base import build_folder
from atonc.machine.base.errors import InputError

FIRST = {"a.txt": b"one", "src/b.txt": b"two"}
SECOND = {"a.txt": b"changed", "c.txt": b"three"}


def _there(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "network_rust"
    write_folder(folder, FIRST)
    assert _there(folder) == FIRST
    write_folder(folder, SECOND)
    assert _there(folder) == SECOND
    assert os.listdir(folder.parent) == ["network_rust"]


@pytest.mark.parametrize("change", ["edited", "added", "no manifest", "damaged manifest", "link"])
def test_what_the_user_changed_stays(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "network_rust"
    write_folder(folder, FIRST)
    if change == "edited":
        (folder / "a.txt").write_bytes(b"mine")
    elif change == "added":
        (folder / "src" / "mine.txt").write_bytes(b"mine")
    elif change == "no manifest":
        (folder / MANIFEST).unlink()
    elif change == "damaged manifest":
        (folder / MANIFEST).write_bytes(b'{"format": "atonc layout 1", "files": 3}')
    else:
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(tmp_path / "elsewhere")
    before = _there(folder)
    with pytest.raises(InputError, match="did not write"):
        write_folder(folder, SECOND)
    assert _there(folder) == before


def test_what_tools_leave_behind_does_not_stop_the_next_build(tmp_path: Path) -> None:
    folder, leavings = tmp_path / "network_rust", ("Cargo.lock", "target/*")
    write_folder(folder, FIRST)
    (folder / "target" / "debug").mkdir(parents=True)
    for path in ("Cargo.lock", "target/debug/lib.rlib"):
        (folder / path).write_bytes(b"built")
    with pytest.raises(InputError, match=r"Cargo\.lock"):
        write_folder(folder, SECOND)
    write_folder(folder, SECOND, leavings)
    assert _there(folder) == SECOND
    (folder / "src.txt").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"src\.txt"):
        write_folder(folder, FIRST, leavings)


def test_what_a_killed_writer_left_goes_when_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a lock tells that no writer lives, it goes at once."""
    old, new = tmp_path / ".atonc-new-old", tmp_path / ".atonc-new-new"
    for hidden in (old, new):
        (hidden / "files").mkdir(parents=True)
    os.utime(old, (1, 1))
    monkeypatch.setattr(build_folder, "fcntl", None)
    write_folder(tmp_path / "network_rust", FIRST)
    assert not old.exists() and new.exists()
    monkeypatch.undo()
    write_folder(tmp_path / "network_rust", SECOND)
    assert not new.exists()


def test_a_failure_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "network_rust"
    write_folder(folder, FIRST)
    rename, calls = os.rename, []

    def failing(source: str, target: str) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(InputError, match="No space left"):
        write_folder(folder, SECOND)
    assert _there(folder) == FIRST
    assert os.listdir(tmp_path) == ["network_rust"]


@pytest.mark.parametrize("path", ["../out.txt", "/out.txt", "a\\b", "a/../../b"])
def test_no_file_leaves_its_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="no path inside"):
        write_folder(tmp_path / "network_rust", {path: b"x"})
    assert os.listdir(tmp_path) == []


def test_a_folder_that_may_not_be_moved_is_refused_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "network_rust"
    write_folder(folder, FIRST)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do everything
    with pytest.raises(InputError, match="no permission"):
        write_folder(folder, SECOND)
    assert _there(folder) == FIRST


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "network_rust"
    write_folder(folder, FIRST)
    monkeypatch.setattr(layout_folder, "_MOST_HASHED", 2)
    with pytest.raises(InputError, match=r"changed: a\.txt, src/b\.txt"):
        write_folder(folder, SECOND)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "network_rust").write_text("mine")
    with pytest.raises(InputError, match="not a folder of ours"):
        write_folder(tmp_path / "network_rust", FIRST)
