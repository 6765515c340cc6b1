"""Units on processes and on a cluster: the same bytes whoever computes them, whatever dies on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atonc.insight import workers
from atonc.insight.workers import WorkUnit, unit
from atonc.machine.base.errors import InputError, ModelError, ToolError
from tests.patience import PATIENCE, until

# a module that workers can import; each call leaves a line in a log
MODULE = """
import os, signal, sys, time
from pathlib import Path
from atonc.machine.base.errors import ModelError

def shout(unit):
    log = Path(unit.options["log"])
    with log.open("a") as file:
        file.write(unit.title + "\\n")
    print("what the work prints is no message")
    mark = log.with_name(unit.title + ".died")
    if unit.options.get("dies") and not mark.exists():
        mark.touch()
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return b"|".join(path.read_bytes() for path in unit.files) + str(unit.options["number"]).encode()

def always_dies(unit):
    os.kill(os.getpid(), signal.SIGKILL)

def refuses(unit):
    raise ModelError("is broken", where=unit.title, remedy="mend it")

def fails(unit):
    return 1 / 0

def sleeps(unit):
    Path(unit.options["log"]).write_text(str(os.getpid()))
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shouting.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def make_units(folder: Path, count: int = 8, dies: bool = False, log: str = "log") -> list[WorkUnit]:
    units = []
    for number in range(count):
        path = folder / f"sample{number}.bin"
        path.write_bytes(bytes([number]) * 100)
        options = {"number": number, "log": str(folder / log)} | ({"dies": True} if dies and number in (2, 5) else {})
        units.append(WorkUnit(f"unit{number}", (path,), options))
    return units


def calls(folder: Path, log: str = "log") -> list[str]:
    path = folder / log
    return sorted(path.read_text().split()) if path.exists() else []


EXPECTED = [bytes([number]) * 100 + str(number).encode() for number in range(8)]


def test_processes_give_what_one_process_gives(folder: Path) -> None:
    units = make_units(folder)
    assert workers.run(units, "shouting:shout", processes=0) == EXPECTED
    assert workers.run(units, "shouting:shout", processes=2) == EXPECTED


def test_a_worker_that_dies_is_replaced_and_nothing_counts_twice(folder: Path) -> None:
    units, heard = make_units(folder, dies=True), []
    found = workers.run(units, "shouting:shout", processes=2, progress=lambda *step: heard.append(step))
    assert found == EXPECTED
    assert calls(folder) == sorted([f"unit{n}" for n in range(8)] + ["unit2", "unit5"])
    assert heard == [(count, 8) for count in range(9)]


def test_a_killed_worker_of_a_dask_cluster_changes_no_byte(folder: Path) -> None:
    pytest.importorskip("distributed")
    units = make_units(folder, dies=True)
    assert workers.run(units, "shouting:shout", scheduler="local", processes=2, cache=folder / "kept") == EXPECTED
    assert set(calls(folder)) == {f"unit{n}" for n in range(8)}
    assert calls(folder).count("unit2") == 2  # it did die


def test_what_kills_every_worker_is_an_error_of_that_unit(folder: Path) -> None:
    with pytest.raises(workers.LostWorkerError, match=r"unit0(?s:.*)SIGKILL"):
        workers.run(make_units(folder, 1), "shouting:always_dies", processes=1)


def test_errors_keep_their_kind_and_words(folder: Path) -> None:
    with pytest.raises(ModelError) as caught:
        workers.run(make_units(folder, 1), "shouting:refuses", processes=1)
    assert (caught.value.where, caught.value.remedy) == ("unit0", "mend it")
    with pytest.raises(ToolError, match="ZeroDivisionError"):
        workers.run(make_units(folder, 1), "shouting:fails", processes=1)


def test_failures_may_be_rows(folder: Path) -> None:
    def row(failed: WorkUnit, error: Exception) -> bytes:
        return f"{failed.title}: {error}".encode()

    kept = folder / "kept"
    found = workers.run(make_units(folder, 2), "shouting:refuses", processes=1, cache=kept, on_failure=row)
    assert [text.decode().partition(":")[0] for text in found] == ["unit0", "unit1"]
    assert not kept.exists()  # a failure may be gone next time


def test_results_are_kept_by_content(folder: Path) -> None:
    units, kept = make_units(folder), folder / "kept"
    assert workers.run(units, "shouting:shout", processes=0, cache=kept) == EXPECTED
    assert workers.run(units, "shouting:shout", processes=0, cache=kept) == EXPECTED
    assert len(calls(folder)) == 8
    units[3].files[0].write_bytes(b"other")
    changed = workers.run(units, "shouting:shout", processes=0, cache=kept)
    assert changed == [*EXPECTED[:3], b"other3", *EXPECTED[4:]]
    assert len(calls(folder)) == 9


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another"])
def test_a_damaged_entry_is_computed_again(folder: Path, damage: str) -> None:
    units, kept = make_units(folder, 2), folder / "kept"
    workers.run(units, "shouting:shout", processes=0, cache=kept)
    entries = sorted(path for path in kept.rglob("*") if path.is_file())
    good = [path.read_bytes() for path in entries]
    bad = {"cut": good[0][:-1], "flipped": good[0][:-1] + bytes([good[0][-1] ^ 1]), "empty": b"", "another": good[1]}
    entries[0].write_bytes(bad[damage])
    assert workers.run(units, "shouting:shout", processes=0, cache=kept) == EXPECTED[:2]
    assert entries[0].read_bytes() == good[0]
    assert len(calls(folder)) == 3


def test_units_of_equal_content_are_computed_once(folder: Path) -> None:
    one = make_units(folder, 1)[0]
    again = WorkUnit("unit9", one.files, one.options)
    assert workers.run([one, again, one], "shouting:shout", processes=0) == [EXPECTED[0]] * 3
    assert calls(folder) == ["unit0"]


def test_a_file_that_changes_meanwhile_is_no_result(folder: Path) -> None:
    one = make_units(folder, 1)[0]
    document = one.as_document(one.digests())
    one.files[0].write_bytes(b"changed now")
    words, result = unit.answer("shouting:shout", document, unit.code_version())
    assert result == b"" and "not the file" in words["error"]["what"]


def test_a_worker_of_another_version_is_told(folder: Path) -> None:
    one = make_units(folder, 1)[0]
    words, _ = unit.answer("shouting:shout", one.as_document(one.digests()), "0.0.9-other")
    assert words["error"]["kind"] == "ToolError" and "0.0.9-other" in words["error"]["what"]


def test_what_workers_cannot_do_is_said_before_they_start(folder: Path) -> None:
    units = make_units(folder, 1)
    with pytest.raises(InputError, match="importable"):
        workers.run(units, lambda one: b"")
    with pytest.raises(InputError, match="JSON"):
        workers.run([WorkUnit("a", (), {"x": object()})], "shouting:shout")
    with pytest.raises(InputError, match=r"missing\.bin"):
        workers.run([WorkUnit("a", (folder / "missing.bin",))], "shouting:shout")


def test_no_scheduler_there(folder: Path) -> None:
    pytest.importorskip("distributed")
    from atonc.insight.workers import processes

    seconds, processes.CONNECT_SECONDS = processes.CONNECT_SECONDS, 1
    try:
        with pytest.raises(ToolError, match="no Dask scheduler answers"):
            workers.run(make_units(folder, 1), "shouting:shout", scheduler="tcp://127.0.0.1:9")
    finally:
        processes.CONNECT_SECONDS = seconds


def test_leaving_early_ends_the_processes(folder: Path) -> None:
    """Ctrl-C in a process of its own: no traceback of workers, no worker left."""
    script = (
        "import signal\nfrom atonc.insight import workers\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job of a shell ignores it
        f"unit = workers.WorkUnit('u', (), {{'log': {str(folder / 'pid')!r}}})\n"
        "try:\n    workers.run([unit], 'shouting:sleeps', processes=1)\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=PATIENCE) == (b"stopped\n", b"")
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)
