"""The simulator, the crash checker, and what they know by name."""

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
    ``{"nvm.write_ns": 500}``. ``crash_at`` takes cycles, and shares such as ``"50%"``, one or a list.

    Raises :class:`UsageError` with the command's message. Other threads run meanwhile, and Ctrl-C ends it.
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

    Returns :class:`Checked`, a list of the rows that ``--json`` prints; ``violations`` are those with something wrong. With a folder
    ``out`` a call that was ended goes on where it was, and :func:`merge` puts the folders of several shards together.
    """
    return Checked(json.loads(_strandline.explore(flags("check", locals())))["rows"])


def litmus(*files, setting=None):
    """Runs litmus tests in files, as ``strandline-check litmus`` does.

    Returns a list of a dictionary for each test and setting (``line``, ``word``, ``flush-on-fail``; all by default): which states a crash
    may leave, and whether those asked about are among them.
    """
    arguments = flags("litmus", {"setting": setting}) + ["--", *map(str, files)]
    return Litmus(json.loads(_strandline.explore(arguments)))


def _listed(kind):
    return Rows(json.loads(_strandline.answer(["list"]))[kind])


def machines():
    """The machines that have a name: name, source and description of each."""
    return _listed("machines")


def schemes():
    """The software schemes."""
    return _listed("schemes")


def hardware():
    """The hardware schemes."""
    return _listed("hardware")


def workloads():
    """The workloads."""
    return _listed("workloads")


def describe(name):
    """All that there is to say of what has this name, such as the parameters of a hardware scheme, as ``strandline-lab list NAME``."""
    return Rows(json.loads(_strandline.answer(["list", "--", name]))["found"])
