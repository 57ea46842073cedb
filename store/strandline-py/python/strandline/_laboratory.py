"""The simulator, the crash checker, and lists of the names that they know."""

import json

from . import _strandline
from ._flags import documented, flags
from ._results import Checked, Litmus, Result, Rows


@documented("simulate")
def simulate(
    *,
    machine=None,
    set=None,
    scheme=None,
    hardware=None,
    workload=None,
    threads=None,
    idle_percent=None,
    transactions=None,
    warm_up_transactions=None,
    value_bytes=None,
    operations_per_transaction=None,
    log_bytes=None,
    seed=None,
    trace=None,
    record=None,
    crash_at=None,
):
    """Runs a scheme and a workload on a simulated machine, as ``strandline-lab simulate`` does.

    Returns a :class:`Result`: the dictionary that ``--json`` prints. ``set`` is a dictionary of keys of the machine, such as
    ``{"nvm.write_ns": 500}``. ``crash_at`` is a cycle, a share such as ``"50%"``, or a list of these.

    Raises :class:`UsageError` with the command's message. Other threads continue meanwhile, and Ctrl-C ends the run.
    """
    return Result(json.loads(_strandline.answer(flags("simulate", locals()))))


@documented("check")
def check(
    *,
    world=None,
    scheme=None,
    workload=None,
    setting=None,
    threads=None,
    exhaustive=None,
    preemptions=None,
    transactions=None,
    states=None,
    recovery_crashes=None,
    words=None,
    samples=None,
    seed=None,
    mutants=None,
    omit=None,
    set=None,
    limit_seconds=None,
    out=None,
    shard=None,
):
    """Explores the states that a power failure can leave, and judges recovery, as ``strandline-lab check`` does.

    Returns :class:`Checked`, a list of the rows that ``--json`` prints; ``violations`` are the rows with a violation. With a folder
    ``out``, a call that was interrupted continues where it was, and :func:`merge` combines the folders of several shards.
    """
    return Checked(json.loads(_strandline.explore(flags("check", locals())))["rows"])


def litmus(*files, setting=None):
    """Runs litmus tests in files, as ``strandline-check litmus`` does.

    Returns a list with a dictionary for each test and setting (``line``, ``word``, ``flush-on-fail``; all by default): the states that a crash
    may leave, and whether the states in question are among them.
    """
    arguments = flags("litmus", {"setting": setting}) + ["--", *map(str, files)]
    return Litmus(json.loads(_strandline.explore(arguments)))


def _listed(kind):
    return Rows(json.loads(_strandline.answer(["list"]))[kind])


def machines():
    """Returns the machines that have a name: name, source and description of each."""
    return _listed("machines")


def schemes():
    """Returns the software schemes."""
    return _listed("schemes")


def hardware():
    """Returns the hardware schemes."""
    return _listed("hardware")


def workloads():
    """Returns the workloads."""
    return _listed("workloads")


def describe(name):
    """Returns the description of the item with this name, such as the parameters of a hardware scheme, like ``strandline-lab list NAME``."""
    return Rows(json.loads(_strandline.answer(["list", "--", name]))["found"])
