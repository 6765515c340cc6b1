"""Results of former runs: found again by their content, never wrong, and never missed where they are not there."""

from __future__ import annotations

import errno
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from functools import cached_property, partial
from math import inf
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.verify import verify as verifying
from atonc.compiler.verify.report import LayerCheck
from atonc.doors.cli.cli import main
from atonc.doors.serve.jobs import _environment
from atonc.machine.base import cache
from atonc.machine.base.cache import ResultStore
from atonc.machine.base.content import BadValueError, NoContentError, digest, packed, unpacked
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Evidence, Rule
from atonc.machine.base.words import Room
from tests.compiler.test_calibration import DIGITS, network, unusual
from tests.patience import PATIENCE

VALUE = {"sums": [1.5, float("inf"), -0.0, 1e-300], "text": "a", "none": None, "deep": [[1], [2]]}
KEY, OTHER = digest("key"), digest("other")


@pytest.fixture()
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "atonc" / "results"


@pytest.fixture()
def kept(tmp_path: Path) -> ResultStore:
    """One result in a folder."""
    found = ResultStore(tmp_path / "kept")
    found.save(KEY, VALUE)
    return found


def path_of(found: ResultStore, key: str = KEY) -> Path:
    return found.folder / f"{key}.result"


def loaded(found: ResultStore, key: str = KEY) -> object:
    try:
        return found.load(key)
    except KeyError:
        return None


# --------------------------------------------------------------------------------------------------------- contents


class Kind(Enum):
    ONE, TWO = 1, 2


@dataclass(frozen=True, eq=False)
class Holder:
    value: object
    other: object = None

    @cached_property
    def doubled(self) -> object:
        return (self.value, self.value)


def adding(number: int):
    return lambda codes: codes + number


VALUES = [
    *(None, 0, 0.0, -0.0, False, "", "0", b"", b"0", range(3), Path("a"), Kind.ONE, Kind.TWO, int, float),
    *((), (0,), ((0,),), (0, 0), {}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, frozenset({1})),
    *(np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1)), np.float32(0)),
    *(Holder(1), Holder(2), Holder(1, 1)),
]


def test_unlike_values_have_unlike_digests() -> None:
    found = [digest(value) for value in VALUES]
    assert len(set(found)) == len(VALUES)
    assert digest("a", "b") != digest("ab") != digest(("a", "b"))


def test_what_was_worked_out_of_a_value_is_no_part_of_it() -> None:
    one, other = Holder([1]), Holder([1])
    assert one.doubled and digest(one) == digest(other)


def test_digests_are_those_of_another_process() -> None:
    values = "frozenset('abcdef'), {'a': np.arange(5)}, Holder(Kind.TWO)"
    program = f"from tests.test_cache import *; print(digest({values}))"
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] and len(said[0]) == 65


def test_values_without_a_content_are_refused() -> None:
    ring: list[object] = []
    ring.append(ring)
    for value in (
        iter(()),
        (k for k in ()),
        ring,
        object(),
        np.array([object()]),
        sys,
        len,
        adding(1),
        Holder(1).__repr__,
    ):
        with pytest.raises(NoContentError):
            digest(value)


# ------------------------------------------------------------------------------------------------------- one result


def test_what_was_kept_is_found(kept: ResultStore) -> None:
    assert loaded(kept) == VALUE and loaded(kept, OTHER) is None
    assert repr(loaded(kept)) == repr(VALUE)  # -0.0 too


def test_damage_is_no_result(kept: ResultStore) -> None:
    """Each byte in turn, and each length."""
    path = path_of(kept)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bits in (0x01, 0x80, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :])
            assert loaded(kept) is None, (at, bits)
        path.write_bytes(whole[:at])
        assert loaded(kept) is None, at
    for text in (whole + b"\0", whole * 2, b"\0" * len(whole), whole[1:]):
        path.write_bytes(text)
        assert loaded(kept) is None
    path.write_bytes(whole)
    assert loaded(kept) == VALUE


def test_a_result_under_another_name_is_none(kept: ResultStore) -> None:
    path_of(kept).rename(path_of(kept, OTHER))
    assert loaded(kept) is None and loaded(kept, OTHER) is None


def test_what_is_no_file_is_no_result(kept: ResultStore) -> None:
    path_of(kept).unlink()
    path_of(kept).mkdir()
    assert loaded(kept) is None
    kept.save(KEY, VALUE)  # cannot be, and says nothing
    path_of(kept).rmdir()
    path_of(kept).symlink_to(kept.folder / "nothing")
    assert loaded(kept) is None
    path_of(kept).unlink()
    os.mkfifo(path_of(kept))
    assert loaded(kept) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"(" * 100_000,
        b"\xff\xfe",
        b"{}",
        b"N",
        b"\x80\x05.",
        b"\x80\x05\x8e" + b"\xff" * 7 + b"\x7f.",  # bytes without end
        b"\x80\x05K\x07Q.",  # what nobody told the reader
        *(pickle.dumps(one, 5) for one in (os.system, Path("a"), partial(os.system, "true"), subprocess.Popen)),
        pickle.dumps(main, 5),  # a function of this package
        pickle.dumps(ResultStore.load, 5),
        pytest.param(bytes(cache.MOST_BYTES), id="huge"),
    ],
)
def test_a_hostile_file_with_a_right_digest_is_no_result(kept: ResultStore, body: bytes) -> None:
    path_of(kept).write_bytes(cache._head(KEY, body) + body)
    assert loaded(kept) is None


class Harm:
    """What `pickle` would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_file_is_run(kept: ResultStore, tmp_path: Path) -> None:
    harm = pickle.dumps(Harm(tmp_path / "harmed"), 5)
    path_of(kept).write_bytes(cache._head(KEY, harm) + harm)
    assert loaded(kept) is None and not (tmp_path / "harmed").exists()
    pickle.loads(harm)
    assert (tmp_path / "harmed").exists(), "it would be"


def test_values_come_back_as_they_were() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    values = [VALUE, BufferKind.SCRATCH, (1, 2), {3}, frozenset({4}), Fraction(1, 3), range(3), b"abc", Room(5)]
    values += [Rule("A", "B", "c", Evidence(1, 2, "d"), "e"), np.float32(0.1)]
    values += [LayerCheck("t", "k", "n", 1, False, 2, 0.5, 1.0, 2.0)]
    again = unpacked(packed(values))
    assert repr(again) == repr(values) and [type(one) for one in again] == [type(one) for one in values]
    assert np.array_equal(unpacked(packed(array)), array) and unpacked(packed(array)).dtype == array.dtype
    held = object()
    assert unpacked(packed([held, held], (held,)), (held,)) == [held, held]


@pytest.mark.parametrize("value", [adding(1), print, object(), iter(()), sys, cache.used])
def test_values_without_bytes_are_not_kept(home: Path, value: object) -> None:
    with pytest.raises(NoContentError):
        packed([value])
    with cache.used():
        assert [cache.remembered(cache.key_of("it"), lambda: [value], list) for _ in range(2)] == [[value]] * 2
    assert not home.exists() or not list(home.iterdir())


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, ("a", 1), VALUE])
def test_a_value_of_another_type_is_worked_out_anew(home: Path, value: object) -> None:
    with cache.used() as found:
        assert found is not None
        key = cache.key_of("anything", 1)
        found.save(key, value)
        assert cache.remembered(key, lambda: {"anew"}, set) == {"anew"} and not found.found


def test_writers_and_readers_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of each, and one who makes room: a reader sees the whole result or none."""
    monkeypatch.setattr(cache, "MOST_FILES", 6)
    folder, keys, wrong, seen = tmp_path / "raced", [digest(k) for k in range(12)], [], [0]

    def work(seed: int) -> None:
        own, order = ResultStore(folder), random.Random(seed)
        for _ in range(150):
            number = order.randrange(len(keys))
            if seed % 2:
                own.save(keys[number], [number] * 2000)
            elif (value := loaded(own, keys[number])) is not None:
                seen[0] += 1
                wrong.extend([value] if value != [number] * 2000 else [])
            if order.random() < 0.1:
                own.shrink()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not wrong and seen[0] > 50


def test_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 8)
    found, keys = ResultStore(tmp_path / "full"), [digest(k) for k in range(9)]
    for age, key in enumerate(keys):
        found.save(key, age)
        os.utime(path_of(found, key), (1e9 + age, 1e9 + age))
    lost = found.folder / f"{cache._BEGINNING}abc_1234"
    lost.write_bytes(b"of a run that was ended")
    os.utime(lost, (1e9 - 5000, 1e9 - 5000))
    assert loaded(found, keys[0]) == 0  # used again: it is the newest now
    found.shrink()
    assert [loaded(found, key) for key in keys] == [0, None, None, None, 4, 5, 6, 7, 8]
    assert not lost.exists()


def test_the_folder_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FOLDER_BYTES", 10_000)
    found = ResultStore(tmp_path / "full")
    for number in range(30):
        found.save(digest(number), "x" * 900)
    found.shrink()
    assert 5_000 < sum(path.stat().st_size for path in found.folder.iterdir()) < 10_000


def test_files_of_others_neither_count_nor_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be one where the user has files of any name, older than all results."""
    monkeypatch.setattr(cache, "MOST_FOLDER_BYTES", 10_000)
    found = ResultStore(tmp_path)
    theirs = ["package.json", "weights.bin", ".new-file-of-mine", f"{KEY}.result.bak", f"{'F' * 64}.result"]
    theirs += [f"{digest('of another tool')}.result"]
    for name in theirs:
        (tmp_path / name).write_bytes(b"{}" if name.endswith(("json", ".result")) else b"x" * 20_000)
        os.utime(tmp_path / name, (1e9, 1e9))
    (tmp_path / f"{digest('a folder')}.result").mkdir()
    for number in range(9):
        found.save(digest(number), "x" * 900)
    found.shrink()
    assert all(loaded(found, digest(number)) for number in range(9))  # below the bound by themselves
    for number in range(9, 30):
        found.save(digest(number), "x" * 900)
    found.shrink()
    left = {path.name for path in tmp_path.iterdir()}
    assert left >= {*theirs, f"{digest('a folder')}.result"} and len(left) < 20


def test_only_what_was_there_before_counts(home: Path) -> None:
    def used() -> int:
        with cache.used() as found:
            assert found is not None
            for _ in range(3):
                assert cache.remembered(cache.key_of("anything"), list, list) == []
            return len(found.found)

    assert [used(), used()] == [0, 1]


# ----------------------------------------------------------------------------------------------------- where it lies


@pytest.mark.parametrize("kind", [LayerCheck, Fraction, BufferKind])
def test_bytes_change_nothing_that_is_there(kind: type) -> None:
    """An operation of `pickle` sets attributes of a class; what has it is refused before anything is read."""
    state = pickle.dumps((None, {"bad": False}), protocol=4)[2:-1]
    forged = b"\x80\x04" + pickle.dumps(kind, protocol=4)[2:-1] + state + b"b."
    before = dict(vars(kind))
    with pytest.raises(BadValueError, match="BUILD"):
        unpacked(forged)
    assert dict(vars(kind)) == before


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.folder() == tmp_path / "atonc" / "results"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.folder() == tmp_path / "local" / "atonc" / "results"
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "me")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == tmp_path / "me" / "Library" / "Caches" / "atonc" / "results"
    monkeypatch.setenv(cache.VARIABLE, "OFF")
    assert cache.folder() is None
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "x"))
    assert cache.folder() == tmp_path / "x" / "atonc" / "results"
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "me"))
    monkeypatch.setenv(cache.VARIABLE, "~/x")
    assert cache.folder() == tmp_path / "me" / "x" / "atonc" / "results"

    def nobody() -> Path:
        raise RuntimeError

    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setattr(Path, "home", nobody)
    assert cache.folder() is None


def test_visitors_of_the_service_share_nothing(tmp_path: Path) -> None:
    assert _environment(tmp_path)[cache.VARIABLE] == cache.OFF


# ------------------------------------------------------------------------------------------------------ compilations


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def generated(tmp_path: Path, *more: str, code: int = 0) -> dict[str, bytes]:
    """The files of a network, made by a run that remembers nothing of those before."""
    from atonc.compiler.search import known

    known._last = None
    assert main(["generate", str(DIGITS), "-o", str(tmp_path / "out"), "-q", *more]) == code
    return files(tmp_path / "out")


@pytest.fixture()
def verified(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts verifications."""
    count, really = [0], verifying.verify

    def counted(*given, **named):
        count[0] += 1
        return really(*given, **named)

    monkeypatch.setattr(verifying, "verify", counted)
    return count


def compiled(options: Options | None = None) -> Compiled:
    from atonc.compiler.search import known

    known._last = None
    return compile_graph(network(), options or Options())


def test_a_second_run_works_out_less_and_writes_the_same(home: Path, tmp_path: Path, verified: list[int]) -> None:
    without = generated(tmp_path, "--no-cache")
    assert verified == [1] and not home.exists()
    assert generated(tmp_path) == without and verified == [2]
    assert generated(tmp_path) == without and verified == [2]
    assert generated(tmp_path, "--seed", "3")["network.c"] == without["network.c"] and verified == [3]


def test_a_compilation_of_a_former_run_says_the_same(home: Path) -> None:
    first, again = compiled(), compiled()
    assert not first.reused and again.reused == 1 == len(list(home.iterdir()))
    for one in fields(first):
        if one.name not in ("lowered", "seconds", "reused", "target"):
            assert same_value(getattr(first, one.name), getattr(again, one.name)), one.name
    assert again.cost.cycles == first.cost.cycles and again.memory_use() == first.memory_use()
    rooms = [one.mapped.context.semantics["b"].room for one in (first, again)]  # forms are found once more
    assert rooms[0] == rooms[1] < inf


def same_value(one: object, other: object) -> bool:
    return digest(one) == digest(other)


def test_what_was_not_verified_is_not_kept(home: Path) -> None:
    compiled(Options(verify=False))
    assert not compiled(Options(verify=False)).key and compiled().report is not None


def test_other_inputs_are_other_results(home: Path, tmp_path: Path) -> None:
    """A file of the same name with other samples."""
    file, options = tmp_path / "mine.npz", Options(calibration=(str(tmp_path / "mine.npz"),))
    rooms = []
    for samples in (np.random.default_rng(1).integers(-128, 128, (9, 64)).astype(np.int8), unusual(network(), 9)):
        np.savez(file, x=samples)
        found = compiled(options)
        assert not found.reused
        assert compiled(options).reused
        rooms.append(found.mapped.context.semantics["b"].room)
    assert rooms[0] != rooms[1]


def test_another_version_finds_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    monkeypatch.setattr(cache, "_source", lambda: "another")
    assert not compiled().reused


def test_every_file_of_the_package_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "package_folder", lambda: tmp_path)
    seen = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.toml", "2"), ("b.pyc", "3")):
        (tmp_path / name).write_text(text)
        seen.add(cache._source.__wrapped__())
    assert len(seen) == 3  # compiled ones do not count


def test_a_refused_program_is_not_remembered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atonc.machine.base.errors import VerificationError

    def refuse(*_given, **_named):
        raise VerificationError("wrong")

    with monkeypatch.context() as patch, pytest.raises(VerificationError):
        patch.setattr(verifying, "verify", refuse)
        compiled()
    assert compiled().report is not None


def body_of(path: Path, key: str) -> bytes | None:
    """What the store would read values from."""
    with patch.object(cache, "unpacked", lambda body, known: bytes(body)):
        return loaded(ResultStore(path.parent), key)


def test_damaged_caches_change_no_byte(home: Path, tmp_path: Path) -> None:
    """As many as the issue asks for: each file of a real cache damaged in many ways gives its own result or none."""
    without = generated(tmp_path, "--no-cache")
    generated(tmp_path)
    order, whole = random.Random(49), files(home)
    for number in range(200):
        name = order.choice(sorted(whole))
        content = bytearray(whole[name])
        for _ in range(order.choice((1, 1, 5, 100))):
            content[order.randrange(len(content))] = order.randrange(256)
        content = content[: order.choice((len(content), len(content), order.randrange(len(content))))]
        content = bytearray(whole[order.choice(sorted(whole))]) if order.random() < 0.2 else content
        (home / name).write_bytes(content)
        found = body_of(home / name, name.removesuffix(".result"))
        assert found is None or found == whole[name][128:], number
        if number % 20 == 0:
            assert generated(tmp_path) == without
        (home / name).write_bytes(whole[name])


@pytest.mark.parametrize("fails", ["mkdir", "replace", "mkstemp", "is a file"])
def test_a_folder_that_takes_nothing_harms_nobody(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_given, **_named):
        raise OSError(errno.ENOSPC, "no space left on device")

    without = generated(tmp_path, "--no-cache")
    if fails == "is a file":
        home.parent.mkdir(parents=True)
        home.write_text("")
    else:
        owner = {"mkdir": Path, "replace": cache.os, "mkstemp": cache.tempfile}[fails]
        really = getattr(owner, fails)

        def some(*given, **named):
            ours = any(str(home) in str(one) for one in (*given, *named.values()))
            return full() if ours else really(*given, **named)

        monkeypatch.setattr(owner, fails, some)
    assert generated(tmp_path) == without
    assert fails == "is a file" or not home.exists() or not list(home.iterdir())


def test_the_summary_says_so(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(DIGITS), "-o", str(tmp_path / "out")]
    assert main([*words, "-q"]) == 0
    capsys.readouterr()
    assert main([*words, "-v"]) == 0
    assert "came from the cache (--no-cache works them out anew)" in capsys.readouterr().err
    assert main([*words, "-v", "--no-cache"]) == 0
    assert "from the cache" not in capsys.readouterr().err
