"""Work on many cores or machines: units that are pure functions of files and options, computed once, kept by content.

    results = workers.run(units, "atonc.insight.sweeping.row:compute", scheduler="tcp://host:8786", cache=folder)

A unit names files and options; a function of a module turns it into bytes. Whoever runs it (`processes.py`: those
of this machine, or a Dask cluster), however often a worker is lost on the way: the bytes are the same, in the order of
the units. They are kept, so an interrupted run goes on where it was.
"""

from atonc.insight.workers.run import FinishedUnit, LostWorkerError, run, stream
from atonc.insight.workers.unit import Cache, WorkUnit, default_folder

__all__ = ["Cache", "FinishedUnit", "LostWorkerError", "WorkUnit", "default_folder", "run", "stream"]
