"""The same examples in every run; with ATONC_EXPLORE=1 hypothesis looks for new ones. Arm objects are made once."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.outcomes import Outcomes

os.environ["ATONC_CACHE_DIR"] = "off"  # what the developer's own runs have left must not count
os.environ.pop("COLUMNS", None)  # pytest's readline sets it for its workers; texts are looked at as in a pipe
gc.set_threshold(1_000_000, 20, 20)  # compilations make many small things that live on: looking for cycles took a tenth
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("ATONC_EXPLORE") else "repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-figures", action="store_true", help="write tests/golden/figures.toml anew")
    parser.addoption("--rewrite-said", action="store_true", help="write tests/golden/said anew")
    parser.addoption("--rewrite-outcomes", action="store_true", help="write tests/golden/outcomes anew")
    parser.addoption("--rewrite-numerics", action="store_true", help="write tests/golden/numerics_2x.toml anew")


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay to the end


@pytest.fixture()
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """What a test adds is compared with its record when it has passed."""
    made = Outcomes(request.path.stem, request.node.name, request.config.getoption("--rewrite-outcomes"))
    yield made
    if made.lines:
        made.check()


@pytest.fixture(scope="session", autouse=True)
def _one_object_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Dozens of firmwares link the same runtime: each of its sources is compiled once for each set of options, by the
    test that comes first, for all workers. What sees a file outside the package is compiled by its own test."""
    from atonc.delivery.firmware import building

    ours, compile_anew = building.runtime_folder(""), building.Toolchain.run
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "objects"
    folder.mkdir(exist_ok=True)

    def run(toolchain: building.Toolchain, arguments: Sequence[str], what: str, where: str) -> None:
        seen = [Path(arguments[-3]), *(Path(word[2:]) for word in arguments if word.startswith("-I"))]
        if arguments[-4] != "-c" or not all(path.is_relative_to(ours) for path in seen):
            return compile_anew(toolchain, arguments, what, where)
        kept = folder / hashlib.sha256(repr((toolchain.gcc, *arguments[:-1])).encode()).hexdigest()
        if not kept.exists():
            compile_anew(toolchain, arguments, what, where)
            half = shutil.copyfile(arguments[-1], kept.with_suffix(f".{os.getpid()}"))
            half.replace(kept)
        shutil.copyfile(kept, arguments[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building.Toolchain, "run", run)
        yield
