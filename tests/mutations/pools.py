"""Memory pools, profiles and boards: read, and a small model placed into what they describe."""

from __future__ import annotations

import os
import random
from functools import lru_cache
from pathlib import Path

from atonc.compiler.compile.pipeline import compile_canonical, memories
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze
from atonc.delivery.generate.profiles import read_profile
from tests.frontends.tflite_models import O, T, build
from tests.mutations.damage import damaged_bytes, damaged_values

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus"))
PROFILE = """{"Globals": {}, "Profiles": {"default": {"memory_pool": "./pool.mpool", "options": "--native-float -O3
 --Ocache-opt --mvei --cache-maintenance --max-ram-size=1000 --enable-virtual-mem-pools"}}}""".replace("\n", "")


@lru_cache
def bases() -> tuple[tuple[str, str], ...]:
    """(file name, text)."""
    files = [
        ROOT / "examples" / "bare_metal" / "ram_only.mpool",
        *sorted((ROOT / "atonc/machine/boards").glob("*.toml")),
    ]
    files += sorted(CORPUS.glob("st/*/*.mpool"))[:6]
    return (*((f"pool{path.suffix}", path.read_text("utf-8", "replace")) for path in files), ("profile.json", PROFILE))


@lru_cache
def small(folder: Path) -> tuple[Path, Graph, Graph]:
    """A model of one operator: the file, the graph as read and the canonical one."""
    tensors = [T("x", (1, 4, 4, 8), scale=0.1), T("y", (1, 4, 4, 8), scale=0.2)]
    path = folder / "small.tflite"
    path.write_bytes(build(tensors, [O("RELU", ["x"], ["y"])], ["x"], ["y"]))
    source = read(path)
    return path, source, order.run(source, Options())


def try_pools(rng: random.Random, number: int, work: Path) -> None:
    name, text = rng.choice(bases())
    data = damaged_values(text, rng).encode() if number % 3 else damaged_bytes(text.encode(), rng)
    (work / name).write_bytes(data)
    model, source, graph = small(work)
    if name == "profile.json":
        (work / "pool.mpool").write_text(bases()[0][1])
        found = read_profile(str(work / name))
        options = Options(mpool=str(found.memory_pool or ""), verify=False)
    else:
        options = Options(mpool=str(work / name), verify=False)
    if number % 20 == 0:
        analyze(model, options)
    else:
        compile_canonical(source, graph, options, memories(options))
