"""All files or none: errors of every kind, and a process that dies anywhere."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from atonc.delivery.deploy import journal
from atonc.machine.base.errors import InputError
from tests import killed

OLD = {"a.c": b"old a\n", "sub/b.h": b"old b\r\n"}
NEW = {"a.c": b"new a\n", "sub/b.h": b"new b\r\n", "fresh/c.h": b"c\n"}


class Killed(BaseException):
    """As a signal that cannot be caught: nothing behind it runs."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for file, data in OLD.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(data)
    return tmp_path


def state(root: Path) -> dict[str, bytes]:
    """Everything but our own folder and the backups."""
    paths = [p for p in root.rglob("*") if p.is_file() and journal.FOLDER not in p.parts]
    return {str(p.relative_to(root)): p.read_bytes() for p in paths if not p.name.endswith(journal.BACKUP)}


def test_all_are_replaced_and_the_first_state_is_kept_once(root: Path) -> None:
    os.chmod(root / "a.c", 0o755)
    assert journal.commit(root, NEW, backup=("a.c",)) == list(NEW)
    assert state(root) == NEW
    assert (root / f"a.c{journal.BACKUP}").read_bytes() == OLD["a.c"]
    assert (root / "a.c").stat().st_mode & 0o777 == 0o755
    journal.commit(root, {"a.c": b"newer\n"}, backup=("a.c",))
    assert (root / f"a.c{journal.BACKUP}").read_bytes() == OLD["a.c"]


def test_twice_is_once(root: Path) -> None:
    journal.commit(root, NEW)
    before = {p: p.stat().st_mtime_ns for p in root.rglob("*") if p.is_file()}
    assert journal.commit(root, NEW) == []
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*") if p.is_file()} == before


def test_the_diff_is_a_patch(root: Path) -> None:
    text = journal.unified_diff(root, NEW)
    assert "--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-old a\n+new a\n" in text
    assert "--- /dev/null\n+++ b/fresh/c.h\n" in text
    assert state(root) == OLD
    assert "bytes" in journal.unified_diff(root, {"x.bin": b"\0\1"})


def test_a_read_only_file_stops_all(root: Path) -> None:
    os.chmod(root / "sub" / "b.h", 0o444)
    with pytest.raises(InputError, match=r"b\.h: is read-only; nothing was changed"):
        journal.commit(root, NEW)
    assert state(root) == OLD


def test_a_folder_in_the_way(root: Path) -> None:
    (root / "fresh" / "c.h").mkdir(parents=True)
    with pytest.raises(InputError, match="is a folder"):
        journal.commit(root, NEW)
    assert state(root) == OLD


def test_a_link_that_leads_out(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "a.c"
    outside.write_bytes(b"x")
    (root / "a.c").unlink()
    (root / "a.c").symlink_to(outside)
    with pytest.raises(InputError, match="leads out of the project"):
        journal.commit(root, NEW)
    assert outside.read_bytes() == b"x"


def test_a_full_disk_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; nothing was changed"):
        journal.commit(root, NEW)
    assert state(root) == OLD and not (root / journal.FOLDER / "stage").exists()


def _calls(root: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int, names: dict[str, object]) -> bool:
    """Runs a commit whose `dies_at`th call to the disk never comes back; whether it died."""
    seen = [0]

    def wrapped(call: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **kwargs: object) -> object:
            seen[0] += 1
            if seen[0] == dies_at:
                raise Killed
            return call(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        for name, owner in names.items():
            patch.setattr(owner, name.partition(".")[2], wrapped(getattr(owner, name.partition(".")[2])))
        patch.setattr(journal.shutil, "rmtree", lambda *args, **kwargs: None)  # the dead do not clear up
        try:
            journal.commit(root, NEW, backup=("a.c",))
        except Killed:
            return True
    return False


def test_killed_anywhere_is_before_or_after(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old or new; where the list was written, the next call ends the work."""
    names = {"os.fsync": os, "os.replace": os, "os.chmod": os, "journal.move": journal}
    deaths = 0
    for dies_at in range(1, 60):
        for file in (*NEW, f"a.c{journal.BACKUP}"):
            (root / file).unlink(missing_ok=True)
        for file, data in OLD.items():
            (root / file).write_bytes(data)
        died = _calls(root, monkeypatch, dies_at, names)
        interrupted = journal.is_interrupted(root)
        if died and not interrupted:
            assert state(root) in (OLD, NEW)
        journal.recover(root)
        assert state(root) == (NEW if interrupted or not died else state(root))
        assert not journal.is_interrupted(root)
        journal.commit(root, NEW)
        assert state(root) == NEW
        deaths += died
        if not died:
            break
    assert deaths > 10


def test_make_finds_the_old_sources_the_new_ones_or_nothing_to_compile(root: Path) -> None:
    """Killed at every file system call; the file that make needs is taken out even where only others change."""
    for new in (NEW, {**NEW, "a.c": OLD["a.c"]}):
        seen, number, died = Counter[str](), 0, True
        while died:
            (root / "fresh" / "c.h").unlink(missing_ok=True)
            journal.commit(root, OLD)
            died = killed.kill_at(partial(journal.commit, root, new, needed="a.c"), root, number)
            seen[killed.judged(state(root), OLD, new, ("a.c",))] += 1
            journal.recover(root)
            assert state(root) in (OLD, new)
            number += 1
        assert seen[killed.MIX] == 0 and min(seen[killed.OLD], seen[killed.NEW], seen[killed.WITHOUT]) > 2, seen


def test_what_waits_but_is_damaged_is_not_taken(root: Path) -> None:
    folder = root / journal.FOLDER
    (folder / "stage").mkdir(parents=True)
    (folder / "stage" / "0").write_bytes(b"half")
    (folder / "commit.json").write_text(json.dumps({"a.c": ["0", journal.digest(b"whole")]}))
    assert journal.recover(root) == []
    assert state(root) == OLD
