"""Stream engines on either bus interface (0 to 4, 5 to 9), and what a bank gives to many of them."""

from __future__ import annotations

from functools import partial

from atonc.delivery.probes.copies import beats, copies
from atonc.delivery.probes.places import CPU_RAM
from atonc.delivery.probes.types import Probe

_LONG, _SHORT = 8192, 2048  # words
_MORE = 4 * (beats(_LONG) - beats(_SHORT))  # beats of four copies
_SPREAD = (0, 2, 1, 3, 5, 7, 6, 8)  # reader and writer of each copy
_READERS = (0, 4, 1, 5, 2, 6, 3, 7)
_WRITERS = (4, 0, 5, 1, 6, 2, 7, 3)
_ONE_BANK = ("",) * 4
_KNOWN = "1,477 of 1,477 published epochs with two to five engines use both interfaces"
_RATE = "rates of banks are fitted on whole networks"

PROBES = (
    Probe(
        "engines-spread",
        "four copies, two readers and two writers on each bus interface",
        _KNOWN,
        partial(copies, _LONG, engines=_SPREAD),
        "control-raster",
    ),
    Probe(
        "engines-readers-together-short",
        "four short copies, all readers on the first bus interface",
        _KNOWN,
        partial(copies, _SHORT, engines=_READERS),
        "engines-spread",
    ),
    Probe(
        "engines-readers-together",
        "four copies, all readers on the first bus interface",
        _KNOWN,
        partial(copies, _LONG, engines=_READERS),
        "engines-spread",
        measures="interface_beat",
        units=_MORE,
        baseline="engines-readers-together-short",
    ),
    Probe(
        "engines-writers-together",
        "four copies, all writers on the first bus interface",
        _KNOWN,
        partial(copies, _LONG, engines=_WRITERS),
        "engines-spread",
    ),
    Probe(
        "reads-of-one-bank-short",
        "four short copies that read one bank and write into three",
        _RATE,
        partial(copies, _SHORT, _ONE_BANK, engines=_SPREAD),
        "engines-spread",
    ),
    Probe(
        "reads-of-one-bank",
        "four copies that read one bank and write into three",
        _RATE,
        partial(copies, _LONG, _ONE_BANK, engines=_SPREAD),
        "engines-spread",
        measures="read_beat",
        units=_MORE,
        baseline="reads-of-one-bank-short",
    ),
    Probe(
        "writes-to-one-bank-short",
        "four short copies that read three banks and write into one",
        _RATE,
        partial(copies, _SHORT, targets=_ONE_BANK, engines=_SPREAD),
        "engines-spread",
    ),
    Probe(
        "writes-to-one-bank",
        "four copies that read three banks and write into one",
        _RATE,
        partial(copies, _LONG, targets=_ONE_BANK, engines=_SPREAD),
        "engines-spread",
        measures="write_beat",
        units=_MORE,
        baseline="writes-to-one-bank-short",
    ),
    Probe(
        "reads-of-cpu-ram-short",
        "four short copies that read the CPU's RAM",
        _RATE,
        partial(copies, _SHORT, _ONE_BANK, engines=_SPREAD, input_in=CPU_RAM),
        "engines-spread",
    ),
    Probe(
        "reads-of-cpu-ram",
        "four copies that read the CPU's RAM",
        _RATE,
        partial(copies, _LONG, _ONE_BANK, engines=_SPREAD, input_in=CPU_RAM),
        "engines-spread",
        measures="noc_beat",
        units=_MORE,
        baseline="reads-of-cpu-ram-short",
    ),
)
