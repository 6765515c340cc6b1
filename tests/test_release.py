"""What `make release` makes: the same bytes twice, a small wheel, and it works where nothing but it is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_SPEC = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
assert _SPEC is not None and _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)

needs_builder = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None or not (ROOT / ".git").exists() or shutil.which("git") is None,
    reason="a release is built from a git checkout, with hatchling (extra dev)",
)


def _registry_answers(folder: Path) -> bool:
    """Whether pip finds packages here: without them no environment can be filled."""
    words = ["download", "--quiet", "--no-deps", "--dest", str(folder), "rich>=13,<16"]
    return subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    files: Sequence[Path] = release.build_twice(tmp_path_factory.mktemp("release"))
    return files


def test_one_version_everywhere() -> None:
    release.check_version()


@needs_builder
def test_two_builds_are_the_same_and_small(built: Sequence[Path]) -> None:
    assert sorted(file.suffix for file in built) == [".gz", ".whl"]
    release.check_size(built)


@needs_builder
def test_a_large_wheel_is_refused(built: Sequence[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "MOST_WHEEL_BYTES", 1000)
    with pytest.raises(release.ReleaseError, match="1,000 are allowed"):
        release.check_size(built)


def test_builds_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def build(place: Path) -> list[Path]:
        (place / "wheel").write_text(str(place))
        return [place / "wheel"]

    monkeypatch.setattr(release, "build", build)
    with pytest.raises(release.ReleaseError, match="two builds differ: wheel"):
        release.build_twice(tmp_path / "release")


@needs_builder
def test_the_wheel_works_in_a_clean_environment(built: Sequence[Path], tmp_path: Path) -> None:
    if not _registry_answers(tmp_path):
        pytest.skip("no package registry answers: a clean environment cannot be filled")
    wheel = next(file for file in built if file.suffix == ".whl")
    assert release.__version__ in release.try_wheel(wheel, tmp_path)


@needs_builder
def test_the_line_of_the_front_page_installs(tmp_path: Path) -> None:
    """As written, in a copy of the clone; then `atonc` is found."""
    if not _registry_answers(tmp_path):
        pytest.skip("no package registry answers: a clean environment cannot be filled")
    (line,) = re.findall(r"```bash\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert line in (ROOT / "docs" / "install.md").read_text()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    shutil.copytree(ROOT, clone, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "build"))
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    script = f"{line} && cd / && atonc --version"
    done = subprocess.run(["bash", "-c", script], cwd=clone, env=alone, capture_output=True, text=True)
    assert done.returncode == 0 and "atonc" in done.stdout, done.stderr
