"""Who proposes what: each generator looks at candidates of one kind and proposes other decisions, with a reason.

A new lever is a file with a function `propose` and a line here. The order is that in which proposals are built.
"""

from atonc.compiler.search.generators import (
    compact,
    cut_kernels,
    evidence,
    near_forms,
    prefetch,
    prefetch_dma,
    reserve_engines,
    resident,
    row_tiles,
    thrift,
    tighter_room,
    trade_ram,
    unfuse,
)
from atonc.compiler.search.log import Verdict
from atonc.compiler.search.loop import Generator

GENERATORS = (
    Generator(Verdict.NO_MEMORY, thrift.without_room),
    Generator(Verdict.NO_MEMORY, unfuse.without_room),
    Generator(Verdict.NO_MEMORY, tighter_room.propose),
    Generator(Verdict.UNDECIDED, resident.propose),
    Generator(Verdict.UNDECIDED, prefetch.propose),
    Generator(Verdict.UNDECIDED, prefetch_dma.propose),
    Generator(Verdict.UNTRUSTED, evidence.propose),
    Generator(Verdict.BEST, thrift.propose),
    Generator(Verdict.BEST, near_forms.propose),
    Generator(Verdict.BEST, unfuse.propose),
    Generator(Verdict.BEST, row_tiles.propose),
    Generator(Verdict.BEST, row_tiles.finer),
    Generator(Verdict.BEST, cut_kernels.propose),
    Generator(Verdict.BEST, reserve_engines.propose),
    Generator(Verdict.BEST, compact.propose),
)
FRONT = (*GENERATORS, Generator(Verdict.BEST, trade_ram.propose))  # where time and RAM count alike
