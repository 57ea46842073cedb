"""Durable transactions on persistent memory and ordinary files, and a laboratory for hardware and software that make them so.

>>> import strandline
>>> run = strandline.simulate(machine="loc", scheme="bppm", workload="queue", transactions=20)
>>> run["result"]["tx_per_s"] > 0
True
"""

from importlib.metadata import PackageNotFoundError, version

from ._errors import DamagedError, DatabaseError, Error, PointError, Stopped, SweepError, UsageError
from ._laboratory import check, describe, hardware, litmus, machines, schemes, simulate, workloads
from ._results import Checked, Litmus, Result, Rows, Sweep
from ._strandline import Database, Snapshot, Table, Ticket, Transaction
from ._sweep import Point, merge, points, sweep

try:
    __version__ = version("strandline")
except PackageNotFoundError:
    __version__ = "unknown"

__all__ = [
    "Checked",
    "DamagedError",
    "Database",
    "DatabaseError",
    "Error",
    "Litmus",
    "Point",
    "PointError",
    "Result",
    "Rows",
    "Snapshot",
    "Stopped",
    "Sweep",
    "SweepError",
    "Table",
    "Ticket",
    "Transaction",
    "UsageError",
    "check",
    "describe",
    "hardware",
    "litmus",
    "machines",
    "merge",
    "points",
    "schemes",
    "simulate",
    "sweep",
    "workloads",
]
