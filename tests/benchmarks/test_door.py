"""One door to all benchmarks: each declares itself, shared arguments are declared once, pages carry a stamp, and old
ones are found."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from benchmarks import door
from benchmarks.shared import declare, pages, stale
from benchmarks.shared.declare import Report, argument

ENTRIES = door.entries()
NAMES = [entry.name for entry in ENTRIES]
OF_THE_WALK = ("models", "only", "few", "shard")  # shared/corpus.py reads them
WHY_IT_MAY_NOT_IMPORT = "an optional package of this benchmark is not installed"


def test_the_door_lists_every_file_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    files = {path.stem for path in door.HERE.glob("*.py")} - set(door.NO_BENCHMARKS)
    assert door.main(["--list"]) == 0
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert shown == files == set(NAMES)


def test_each_declares_what_it_is() -> None:
    for entry in ENTRIES:
        assert entry.group in door.GROUPS, f"GROUP of {entry.name}: one of {list(door.GROUPS)}"
        assert entry.sentence, f"the docstring of {entry.name} begins with a sentence that says what is asked"
        assert len(entry.sentence) <= 130, f"{entry.name}: a line of the list"


def test_a_file_that_declares_nothing_is_seen(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("from atonc.compiler.request import options\n")
    (entry,) = door.entries(tmp_path)
    assert (entry.name, entry.group, entry.sentence) == ("new", "", "")


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_each_can_be_started(entry: door.Entry) -> None:
    try:
        module = entry.module
    except ImportError as error:
        pytest.skip(f"{WHY_IT_MAY_NOT_IMPORT}: {error}")
    assert door.parser_of(entry, module.ARGUMENTS).format_help()
    assert callable(module.run)
    declared = {argument.attribute for argument in module.ARGUMENTS}
    nodes = ast.walk(ast.parse((door.HERE / f"{entry.name}.py").read_text()))
    read = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
    used = {node.attr for node in read if node.value.id == "arguments"}
    assert used <= declared, f"read, but not declared: {used - declared}"
    assert declared <= used | {"write", *OF_THE_WALK}, f"declared, but read by nobody: {declared - used}"


def test_each_leaves_parsing_and_writing_to_the_door() -> None:
    instead = {
        "ArgumentParser": "ARGUMENTS",
        "sys.argv": "ARGUMENTS",
        "__main__": "python -m benchmarks",
        "ATONC_CORPUS": "shared/corpus.py",
        '"results"': "a Report, or shared/pages.py",
    }
    for entry in ENTRIES:
        text = (door.HERE / f"{entry.name}.py").read_text()
        assert [f"{entry.name}: {instead[word]} instead of {word}" for word in instead if word in text] == []


def test_an_argument_that_two_take_is_declared_once() -> None:
    own: dict[str, list[str]] = {}
    for entry in ENTRIES:
        for flag in re.findall(r'[^_.\w]argument\("([\w-]+)"', (door.HERE / f"{entry.name}.py").read_text()):
            own.setdefault(flag, []).append(entry.name)
    shared = {found.flag for found in vars(declare).values() if isinstance(found, declare.Argument)}
    again = {flag: names for flag, names in own.items() if flag in shared or len(names) > 1}
    assert again == {}, "they stand in shared/declare.py; .but(default=...) changes what differs"


def test_the_readme_is_of_these_declarations() -> None:
    assert (door.HERE / "README.md").read_text() == door.readme(ENTRIES), "run python -m benchmarks --readme"


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        door.main(["nonsense"])
    assert "no benchmark 'nonsense'" in capsys.readouterr().err


def test_a_file_started_by_itself_names_the_door(tmp_path: Path) -> None:
    script = tmp_path / "benchmarks" / "schedule.py"
    script.parent.mkdir()
    script.write_text("import benchmarks\n")
    command, environment = [sys.executable, str(script), "--write"], {"PYTHONPATH": str(door.ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode and "python -m benchmarks schedule" in done.stderr


def test_a_command_names_no_path_of_the_machine() -> None:
    spelled = argument("--fetched", type=Path, nargs="+", metavar="DIR").spelled([Path("/home/me"), Path("/tmp")])
    assert spelled == "--fetched DIR DIR"
    assert declare.MODEL_FILES.spelled(["/home/me/one.tflite", "two.onnx"]) == "--models one.tflite two.onnx"
    assert argument("--headers", nargs="+").spelled(["1.1.0=/home/me/ll_aton"]) == "--headers 1.1.0=ll_aton"
    assert declare.WRITE.spelled(True) == "--write" and declare.WRITE.spelled(False) == ""
    assert declare.ONLY.spelled(["mobile"]) == "--only mobile" and declare.ONLY.spelled(()) == ""


def test_every_default_of_a_shared_argument_is_left_unsaid() -> None:
    every = [found for found in vars(declare).values() if isinstance(found, declare.Argument)]
    for one in (one for one in every if not one.settings.get("required") and one.flag.startswith("-")):
        parser = ArgumentParser()
        one.add_to(parser)
        assert one.spelled(getattr(parser.parse_args([]), one.attribute)) == ""


# ------------------------------------------------------------------------------------------------------ pages and age


@pytest.fixture(name="checkout")
def _checkout(tmp_path: Path) -> Path:
    """A repository with one benchmark that reaches one module of atonc through another, and data beside that one."""
    for path, text in {
        "atonc/used.py": "from atonc.deep import inner\n",
        "atonc/deep/inner.py": "VALUE = 1\n",
        "atonc/deep/machine.toml": "flash = 1\n",
        "atonc/unused.py": "VALUE = 1\n",
        "benchmarks/fast.py": "def run():\n    from atonc import used\n",
        "benchmarks/results/fast.md": "# Fast\n\nold\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    pages.git("init", "-q", root=tmp_path)
    return tmp_path


def commit(checkout: Path) -> None:
    pages.git("add", "-A", root=checkout)
    pages.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x", root=checkout)


def make_page(checkout: Path) -> Path:
    page = checkout / "benchmarks" / "results" / "fast.md"
    page.write_text(pages.stamped("# Fast\n\nall is well\n", pages.stamp_line("python -m benchmarks fast", checkout)))
    return page


def test_a_page_without_a_stamp_is_stale(checkout: Path) -> None:
    commit(checkout)
    assert [name for name, why in stale.stale_pages(checkout) if "no stamp" in why] == ["fast.md"]


def test_a_page_of_this_code_is_not_stale(checkout: Path) -> None:
    commit(checkout)
    page = make_page(checkout)
    assert list(stale.stale_pages(checkout)) == []
    title, _, said, *_ = page.read_text().splitlines()
    assert title == "# Fast" and "`python -m benchmarks fast`" in said and pages.machine() in said
    commit(checkout)
    (checkout / "atonc" / "unused.py").write_text("VALUE = 2\n")
    commit(checkout)
    assert list(stale.stale_pages(checkout)) == [], "the benchmark does not import what changed"


@pytest.mark.parametrize("path", ["benchmarks/fast.py", "atonc/deep/inner.py", "atonc/deep/machine.toml"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_page_older_than_what_it_depends_on_is_stale(checkout: Path, path: str, committed: bool) -> None:
    commit(checkout)
    make_page(checkout)
    commit(checkout)
    (checkout / path).write_text((checkout / path).read_text() + "\n# more\n")
    if committed:
        commit(checkout)
    ((name, why),) = stale.stale_pages(checkout)
    assert name == "fast.md" and why.endswith(f"since then changed {path}")


def test_a_page_made_from_uncommitted_code_is_stale(checkout: Path) -> None:
    commit(checkout)
    (checkout / "atonc" / "used.py").write_text("")
    make_page(checkout)
    ((_, why),) = stale.stale_pages(checkout)
    assert "changes that are in no commit" in why


def test_a_page_of_an_unknown_commit_or_of_no_benchmark_is_stale(checkout: Path) -> None:
    commit(checkout)
    page = make_page(checkout)
    page.write_text(page.read_text().replace(pages.stamp_of(page.read_text()).commit, "0123456789"))  # type: ignore[union-attr]
    page.with_name("by_hand.md").write_text(page.read_text())
    whys = dict(stale.stale_pages(checkout))
    assert "no commit of this checkout" in whys["fast.md"] and "no benchmark writes it" in whys["by_hand.md"]


def test_the_door_writes_page_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    pages.write("fast", Report("# Fast\n\nall\n", data={"ms": 1}), "python -m benchmarks fast --write")
    assert pages.stamp_of((tmp_path / "fast.md").read_text()) is not None
    assert (tmp_path / "fast.json").read_text() == '{\n "ms": 1\n}\n'


def test_a_page_begins_with_a_title() -> None:
    with pytest.raises(ValueError, match="begins with a title"):
        pages.stamped("all is well\n", "*Made*")
