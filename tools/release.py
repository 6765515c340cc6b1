"""Wheel and sdist of the commit that is checked out: `python tools/release.py [FOLDER]` (default build/release).

Built twice, from two copies in different folders, and the bytes must be the same; the wheel is installed into a clean
environment and tried there. Nothing is published, nothing is tagged: the last lines say how to.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from atonc.machine.base.about import __version__

ROOT = Path(__file__).parent.parent
MOST_WHEEL_BYTES = 3_000_000
# file -> what it says of the version
SAYS = {
    "CHANGELOG.md": f"\n## [{__version__}]",
    "CITATION.cff": f"\nversion: {__version__}\n",
    "README.md": f"atonc-{__version__}-py3-none-any.whl",
}


class ReleaseError(Exception):
    """What is wrong with it, in a sentence."""


def check_version() -> None:
    for name, words in SAYS.items():
        if words not in (ROOT / name).read_text():
            raise ReleaseError(f"{name} does not say {words.strip()}")


def build_twice(folder: Path) -> list[Path]:
    """The files, if two builds in two places are the same."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(prefix="another place ") as two:
        builds = [build(Path(place)) for place in (one, two)]
        first, second = ({file.name: _sha256(file) for file in files} for files in builds)
        different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        if different:
            raise ReleaseError(f"two builds differ: {', '.join(different)}")
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(file, folder)) for file in builds[0]]


def build(place: Path) -> list[Path]:
    """Wheel and sdist of the tracked files, copied to this place; dated by the commit."""
    source = place / "atonc"
    for name in _git("ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    dated = {**os.environ, "SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct").strip()}
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(place / "dist")], source, dated)
    return sorted((place / "dist").iterdir())


def check_size(files: list[Path]) -> None:
    (wheel,) = (file for file in files if file.suffix == ".whl")
    size = wheel.stat().st_size
    if size > MOST_WHEEL_BYTES:
        raise ReleaseError(f"{wheel.name} has {size:,} bytes, {MOST_WHEEL_BYTES:,} are allowed")


def try_wheel(wheel: Path, place: Path) -> str:
    """Installed into a clean environment, away from the sources: import, version, a network. What `--version` says."""
    _run([sys.executable, "-m", "venv", str(place / "venv")], place)
    commands = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    _run([str(commands / "python"), "-m", "pip", "install", "--quiet", str(wheel)], place, alone)
    _run([str(commands / "python"), "-c", "import atonc; atonc.compile, atonc.load"], place, alone)
    shutil.copy(ROOT / "examples" / "digits" / "digits.tflite", place)
    _run([str(commands / "atonc"), "generate", "digits.tflite", "-o", "build"], place, alone)
    if not (place / "build" / "network.c").is_file():
        raise ReleaseError("the installed atonc wrote no network.c")
    return _run([str(commands / "atonc"), "--version"], place, alone).strip()


def _git(*words: str) -> str:
    return _run(["git", *words], ROOT)


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
    try:
        check_version()
        files = build_twice(folder)
        check_size(files)
        with tempfile.TemporaryDirectory() as place:
            said = try_wheel(next(file for file in files if file.suffix == ".whl").absolute(), Path(place))
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    for file in files:
        print(f"{_sha256(file)}  {file}  {file.stat().st_size:,} bytes")
    print(f"the same bytes twice; installed and tried: {said}")
    print(f"to make it a version: a date in CHANGELOG.md, then git tag -a v{__version__} -m 'atonc {__version__}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
