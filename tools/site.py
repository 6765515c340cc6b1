"""The documentation as a site: `python tools/site.py [FOLDER]` (default build/site); broken links are errors.

Pages stand in the site as they stand in the repository, so that every link between them works in both; what is tracked
and can be a page, a picture or the target of a link is copied to build/pages, and MkDocs reads it there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = "benchmarks/results"
SHOWN = (":(glob)*.md", "docs", "examples", RESULTS, "LICENSE", "Containerfile")
NOT_FOUND = "---\nsearch: { exclude: true }\n---\n"  # tables of results would hide the pages about them


def collect(pages: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "-z", *SHOWN], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        page = pages / name
        page.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, page)
        if name.startswith(RESULTS) and page.suffix == ".md":
            page.write_text(NOT_FOUND + page.read_text())


def build(pages: Path, folder: Path) -> int:
    """The exit code of MkDocs, whose complaints go to standard error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder.absolute())]
    settings = {"ATONC_PAGES": str(pages.absolute()), "NO_MKDOCS_2_WARNING": "1"}  # the latter: Material's successor
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}).returncode


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    pages = ROOT / "build" / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    collect(pages)
    return build(pages, folder)


if __name__ == "__main__":
    sys.exit(main())
