"""A build folder is one whole build, whatever happens to those who write it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import atonc
from atonc.doors.cli.cli import main
from atonc.machine.base import build_folder
from atonc.machine.base.build_folder import BuildKind, Owner, network_build, read_whole, write_whole
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from tests import killed
from tests import unlucky_writers as unlucky
from tests.errors_said import unwrapped

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
ONE = {f"{name}.c": f"one {name}".encode() * 999 for name in "abcd"}
TWO = {f"{name}.c": f"two {name}".encode() * 999 for name in "bcde"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("_manifest.json")}


def readings(tmp_path: Path) -> set[str]:
    """What a reader of either build sees."""
    for build in (ONE, TWO):
        write_whole(tmp_path / str(build is ONE), build, unlucky.NAME)
    return {found for k in (False, True) for found in unlucky.raw_reading(tmp_path / str(k))}


def test_every_moment_of_a_kill(tmp_path: Path) -> None:
    """Readers of atonc end what counts already, and see one whole build."""
    seen = unlucky.aimed_kills(tmp_path / "out", [ONE, TWO], unlucky.raw_reading)
    assert seen.pop(unlucky.BEHIND) > 8 and seen.pop(unlucky.BEFORE) > 8 and seen.pop(unlucky.BETWEEN) > 1
    assert set(seen) == readings(tmp_path)


def test_who_knows_nothing_of_atonc_never_finds_a_mix(tmp_path: Path) -> None:
    """At every file system call of a build with the folder of a layout: as issue 42 asks."""
    old = {"a.c": b"1", "a.h": b"1", "a.raw": b"1", "x.c": b"1", "same.h": b"0"}, {"a_rust": {"Cargo.toml": b"1"}}
    new = {"a.c": b"2", "a.h": b"2", "a.raw": b"2", "a_m.h": b"2", "same.h": b"0"}, {"a_rust": {"Cargo.toml": b"2"}}
    writers = [partial(write_whole, tmp_path / "out", files, network_build("a"), trees) for files, trees in (old, new)]
    states = []
    for writer in writers:
        writer()
        states.append(killed.state_of(tmp_path / "out"))
    seen, died, number = Counter[str](), True, 0
    while died:
        writers[0]()
        died = killed.kill_at(writers[1], tmp_path / "out", number)
        number += 1
        found = killed.state_of(tmp_path / "out")
        seen[killed.judged(found, states[0], states[1], ("a.c", "a_rust/Cargo.toml"))] += 1
    assert seen[killed.MIX] == 0 and min(seen[killed.OLD], seen[killed.NEW], seen[killed.WITHOUT]) > 3, seen


def test_kills_at_random_moments(tmp_path: Path) -> None:
    write_whole(tmp_path / "out", ONE, unlucky.NAME)
    seen = unlucky.kills(tmp_path / "out", [ONE, TWO], 12, 1, unlucky.raw_reading)
    assert set(seen) - readings(tmp_path) <= {unlucky.BEFORE, unlucky.BEHIND, unlucky.BETWEEN}
    write_whole(tmp_path / "out", ONE, unlucky.NAME)
    assert not list((tmp_path / "out").glob(".*")), "the next writer clears what the dead ones left"


def test_two_writers_at_once(tmp_path: Path) -> None:
    write_whole(tmp_path / "out", ONE, unlucky.NAME)
    seen = unlucky.pairs(tmp_path / "out", [ONE, TWO], 3, 4, unlucky.raw_reading)
    assert set(seen) <= readings(tmp_path)


def test_two_writers_at_once_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows and on some network drives: files that both builds have are of one of them."""
    monkeypatch.setattr(build_folder, "fcntl", None)
    common = sorted(set(ONE) & set(TWO))

    def read(folder: Path) -> list[str]:
        return [repr(read_whole(folder, lambda: [read_file(folder / name, 9999) for name in common]))]

    write_whole(tmp_path / "out", ONE, unlucky.NAME)
    seen = unlucky.pairs(tmp_path / "out", [ONE, TWO], 3, 4, read)
    assert set(seen) <= {repr([build[name] for name in common]) for build in (ONE, TWO)}


@pytest.mark.parametrize("overtaken", [False, True])
def test_what_a_dead_writer_left_where_there_are_no_locks(
    overtaken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is old it is ended, unless somebody wrote the folder since: then it is cleared."""
    monkeypatch.setattr(build_folder, "fcntl", None)
    writer = partial(write_whole, tmp_path, TWO, network_build("network"))
    write_whole(tmp_path, ONE, network_build("network"))
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    number = 0
    while killed.kill_at(writer, tmp_path, number) and not list(tmp_path.glob(".atonc-ready-*")):
        number += 1
    with pytest.raises(InputError, match="a writer is at work, or died"):
        read_whole(tmp_path, lambda: None)
    (ready,) = tmp_path.glob(".atonc-ready-*")
    if overtaken:
        write_whole(tmp_path, ONE, network_build("network"))
        read_whole(tmp_path, lambda: None)
        tries = iter([InputError("there is no such file"), None])
        assert read_whole(tmp_path, lambda: raised(next(tries))) is None, "it may be slow instead of dead"
        with pytest.raises(InputError, match="there is no such file"):
            read_whole(tmp_path, lambda: raised(InputError("there is no such file")))
    os.utime(ready, (2, 2))
    read_whole(tmp_path, lambda: None)
    found = {file: data for file, data in killed.state_of(tmp_path).items() if file.endswith(".c")}
    assert found == (ONE if overtaken else TWO) and not ready.exists()


def raised(error: InputError | None) -> None:
    if error is not None:
        raise error


def test_a_real_build_is_read_whole_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of another build among the others: every reader says so."""
    out, other = tmp_path / "out", tmp_path / "other"
    for model, folder in ((DIGITS, out), (DIGITS.with_suffix(".onnx"), other)):
        assert main(["generate", str(model), "-o", str(folder), "-q", "--no-verify"]) == 0
    shutil.copy(other / "network.h", out)
    for words in (["run"], ["view", "--save", str(tmp_path / "x.html")], ["explain"], ["compare", str(other)]):
        assert main([words[0], str(out), *words[1:]]) == 2, words
        said = unwrapped(capsys.readouterr().err)
        assert "network.h is not the file that was generated with the others" in said and said.count("atonc: ") == 1
    with pytest.raises(InputError, match="generate the folder again, or delete"):
        atonc.load(out)
    (out / "network_manifest.json").unlink()
    assert main(["view", str(out), "--save", str(tmp_path / "x.html")]) == 0, "the user's way out"


def test_other_files_stay_and_former_ones_go(tmp_path: Path) -> None:
    mine = {"notes.txt": b"mine", "web_manifest.json": b'{"files": {"a.c": "x"}}', "a.c.orig": b"mine too"}
    for name, content in mine.items():
        (tmp_path / name).write_bytes(content)
    write_whole(tmp_path, {**ONE, "x.c": b"x"}, network_build("network"))
    (tmp_path / "x.c").write_bytes(b"changed by hand")
    write_whole(tmp_path, TWO, network_build("network"))
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    manifest = json.loads(found.pop("network_manifest.json"))
    assert found == {**mine, **TWO, "x.c": b"changed by hand"}, "a.c went, as it was as we had written it"
    assert set(manifest["files"]) == set(TWO)


def test_two_networks_share_a_folder(tmp_path: Path) -> None:
    write_whole(tmp_path, {"one.c": b"1", "kernels.c": b"old"}, network_build("one"))
    with pytest.raises(InputError, match=r"kernels\.c belongs to network 'one' \(one_manifest\.json\)"):
        write_whole(tmp_path, {"two.c": b"2", "kernels.c": b"new"}, network_build("two"))
    assert contents(tmp_path) == {"one.c": b"1", "kernels.c": b"old"}, "its kernels are those that it was made for"
    write_whole(tmp_path, {"two.c": b"2", "kernels.c": b"old"}, network_build("two"))
    assert read_whole(tmp_path, lambda: contents(tmp_path)) == {"one.c": b"1", "two.c": b"2", "kernels.c": b"old"}
    write_whole(tmp_path, {"two.c": b"2"}, network_build("two"))
    assert (tmp_path / "kernels.c").exists(), "the other network lists it too"


def test_a_folder_of_an_application_is_its_own(tmp_path: Path) -> None:
    """D2: another build's files in it were a mix that every reader accepted."""
    application, update = Owner(BuildKind.APPLICATION, "app"), Owner(BuildKind.UPDATE, "one")
    write_whole(tmp_path / "app", {"app_networks.c": b"0", "one.c": b"1"}, application)
    for owner in (network_build("one"), network_build("other"), network_build("app"), update):
        with pytest.raises(InputError, match=r"belongs to application 'app' \(app_manifest\.json\)"):
            write_whole(tmp_path / "app", {"two.c": b"2"}, owner)
    write_whole(tmp_path / "app", {"app_networks.c": b"3"}, application)
    assert contents(tmp_path / "app") == {"app_networks.c": b"3"}
    write_whole(tmp_path / "net", {"one.c": b"1"}, network_build("one"))
    for owner in (application, update, Owner(BuildKind.UPDATE, "other")):
        with pytest.raises(InputError, match="folder of their own"):
            write_whole(tmp_path / "net", {"two.c": b"2"}, owner)
    write_whole(tmp_path / "net", {"one_rel.bin": b"2"}, Owner(BuildKind.IMAGE, "one"))
    with pytest.raises(InputError, match=r"one_rel\.bin belongs to relocatable image 'one'"):
        write_whole(tmp_path / "net", {"one_rel.bin": b"3", "one.c": b"1"}, network_build("one"))


def test_every_manifest_must_hold(tmp_path: Path) -> None:
    """A folder that an older version mixed: two manifests list one file, and only one of them is right."""
    write_whole(tmp_path, {"one.c": b"1"}, network_build("one"))
    listed = {"format": build_folder.FORMAT, "files": {"one.c": hashlib.sha256(b"2").hexdigest()}}
    (tmp_path / "app_manifest.json").write_text(json.dumps(listed))
    with pytest.raises(InputError, match=r"one\.c is not the file that was generated with the others"):
        read_whole(tmp_path, lambda: contents(tmp_path))


def test_the_manifest_depends_on_the_files_only(tmp_path: Path) -> None:
    for k, build in enumerate((ONE, dict(reversed(ONE.items())))):
        write_whole(tmp_path / str(k), build, network_build("network"))
    one, other = ((tmp_path / str(k) / "network_manifest.json").read_bytes() for k in range(2))
    assert one == other


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another device than the temporary files, if there is one."""
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK) or folder.stat().st_dev == Path("/tmp").stat().st_dev:
        pytest.skip("there is only one device")
    made = folder / f"atonc_test_{os.getpid()}"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def test_a_target_on_another_device(elsewhere: Path, tmp_path: Path) -> None:
    """A mount point or a link: nothing is moved between devices."""
    (tmp_path / "out").symlink_to(elsewhere)
    write_whole(tmp_path / "out", ONE, network_build("network"))
    write_whole(tmp_path / "out", TWO, network_build("network"))
    assert contents(elsewhere) == TWO and (tmp_path / "out").is_symlink()


def test_a_file_that_cannot_be_exchanged_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may be mounted one by one."""
    write_whole(tmp_path, ONE, network_build("network"))
    replace, unlink = os.replace, os.unlink

    def busy(source: Path, target: Path) -> None:
        if Path(target).name == "b.c":
            raise OSError(16, "Device or resource busy")
        replace(source, target)

    def mounted(path: Path, **more: Any) -> None:
        if Path(path) == tmp_path / "b.c":
            raise OSError(16, "Device or resource busy")
        unlink(path, **more)

    monkeypatch.setattr(os, "replace", busy)
    monkeypatch.setattr(os, "unlink", mounted)
    write_whole(tmp_path, TWO, network_build("network"))
    assert contents(tmp_path) == TWO


def test_a_compiler_never_finds_a_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a writer dies: while a C file is there, all other files are of its build."""
    write_whole(tmp_path, ONE, network_build("network"))
    replace, seen = os.replace, []

    def watched(source: Path, target: Path) -> None:
        here = {file: (tmp_path / file).read_bytes() for file in ONE if (tmp_path / file).is_file()}
        if "b.c" in here:
            seen.append([build for build in (ONE, TWO) if all(build.get(f) == data for f, data in here.items())])
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write_whole(tmp_path, TWO, network_build("network"))
    assert seen and all(seen) and contents(tmp_path) == TWO


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be written: File exists"):
        write_whole(tmp_path / "file", ONE, network_build("network"))
    (tmp_path / "out" / "b.c").mkdir(parents=True)
    with pytest.raises(InputError, match=r"b\.c: is a folder"):
        write_whole(tmp_path / "out", ONE, network_build("network"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.c"], "nothing was written"


@pytest.mark.parametrize(
    "damage",
    [b'"atonc build 1"', b'{"format": "atonc build 1", "files": {"../x": "' + b"0" * 64 + b'"}}', b"[" * 10**5],
    ids=["no object", "a path", "nested"],
)
def test_a_damaged_manifest(damage: bytes, tmp_path: Path) -> None:
    write_whole(tmp_path, ONE, network_build("network"))
    (tmp_path / "network_manifest.json").write_bytes(damage + b" atonc build 1")
    with pytest.raises(InputError, match=r"network_manifest\.json is not the file"):
        read_whole(tmp_path, lambda: contents(tmp_path))
    write_whole(tmp_path, TWO, network_build("network"))
    assert read_whole(tmp_path, lambda: contents(tmp_path))["e.c"] == TWO["e.c"]
