"""Sweeps on any executor of ``concurrent.futures``."""

import collections
import concurrent.futures as futures
import contextlib
import dataclasses
import json
import os
import sys
import tempfile

from . import _strandline
from ._errors import PointError, SweepError, UsageError
from ._flags import flag, flags, text
from ._results import Checked, Sweep


@dataclasses.dataclass(frozen=True)
class Point:
    """One run of a sweep, with everything that determines its result. It can be pickled and sent to another machine."""

    json: str

    @property
    def keys(self):
        """The keys that are swept, and their values here."""
        return dict(json.loads(self.json)["keys"])

    @property
    def run(self):
        """The run: workload, scheme, hardware, threads, sizes and seed."""
        return json.loads(self.json)["run"]

    @property
    def machine(self):
        """The machine's description."""
        return json.loads(self.json)["machine"]

    def __repr__(self):
        run = self.run
        what = run.get("trace") or f"{run['scheme']} on {run['workload']}"
        keys = "".join(f", {key}={value}" for key, value in self.keys.items())
        return f"<Point {what}, machine {self.machine['name']}{keys}>"


def points(
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
    seeds=None,
    sweep=None,
):
    """Returns the points of ``strandline-lab simulate --sweep``: every combination.

    ``scheme``, ``hardware`` and ``workload`` may be lists. ``sweep`` is a dictionary of lists, whose keys are those of the machine
    (``"nvm.write_ns"``) or the numbers above (``"threads"``). With ``seeds`` each point is made this number of times, with seeds from ``seed`` on. The other keywords are those of
    :func:`simulate`.
    """
    return [Point(one) for one in _strandline.points(flags("simulate", locals()))]


def _points(given):
    """Returns points, which are given as points or as dictionaries of the keywords of ``simulate``."""
    given = list(given)
    if all(isinstance(one, Point) for one in given):
        return given
    if not all(isinstance(one, dict) for one in given):
        raise UsageError("points are what strandline.points() returns, or a list of dictionaries of the keywords of simulate()")
    # Keys of the machine are allowed like the others.
    flat = [{**{k: v for k, v in one.items() if k != "set"}, **(one.get("set") or {})} for one in given]
    names = list(dict.fromkeys(name for one in flat for name in one))
    named = ("scheme", "hardware", "workload")
    varied = [name for name in names if name not in named and len({text(one.get(name, "")) for one in flat}) > 1]
    found = []
    for one, values in zip(given, flat):
        unknown = [name for name in one if name not in points.__kwdefaults__ or name == "sweep"]
        if unknown:
            raise UsageError(f"a point has no {unknown[0]!r}: its keys are the keywords of simulate()")
        made = _strandline.points(flags("simulate", one))
        if len(made) != 1:
            raise UsageError(f"{one} is {len(made)} points: strandline.points() makes combinations")
        point = json.loads(made[0])
        point["keys"] = [[flag(name), text(values.get(name, ""))] for name in varied]
        found.append(Point(json.dumps(point)))
    return found


def run_point(point):
    """Runs one point in a worker. Returns the line of ``points.jsonl`` and None, or None and the reason why it cannot be run anywhere."""
    try:
        return _strandline.run_point(point), None
    except PointError as error:
        return None, str(error)


class _Workers:
    """An executor, which is replaced by another one if it breaks."""

    def __init__(self, executor):
        self._make = None if executor is None or isinstance(executor, futures.Executor) else executor
        self._is_own = executor is None or self._make is not None
        if executor is None:
            self._executor = futures.ThreadPoolExecutor(os.cpu_count())
        else:
            self._executor = self._make() if self._make else executor

    @property
    def count(self):
        return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1

    def submit(self, point):
        return self._executor.submit(run_point, point.json)

    def replace(self, error):
        """Replaces the executor, since it accepts no further work."""
        broken = self._executor
        if self._make:
            self._executor = self._make()
        elif isinstance(broken, futures.ProcessPoolExecutor):
            context = getattr(broken, "_mp_context", None)
            self._executor = futures.ProcessPoolExecutor(self.count, mp_context=context)
        else:
            raise SweepError(
                f"the executor is broken: {error}; what was run is kept. Give a function that makes executors, and the sweep makes another"
            ) from error
        if self._is_own:
            broken.shutdown(wait=False, cancel_futures=True)
        self._is_own = True

    def end(self, cancel):
        if self._is_own:
            self._executor.shutdown(wait=not cancel, cancel_futures=cancel)


def _run_all(store, all_points, executor, attempts, progress):
    """Runs the missing points. Returns the reasons why points could not be run, by their indices."""
    waiting = collections.deque(store.missing())
    total, done = len(store), len(store) - len(waiting)
    failed, tried, running = {}, collections.Counter(), {}
    if not waiting:
        return failed
    workers = _Workers(executor)
    is_whole = False
    try:
        while waiting or running:
            broken = None
            # Only few points are submitted ahead, since those that are lost with a worker count as tried.
            while waiting and len(running) < 2 * workers.count and broken is None:
                index = waiting.popleft()
                try:
                    running[workers.submit(all_points[index])] = index
                except futures.BrokenExecutor as error:
                    waiting.appendleft(index)
                    broken = error
            finished, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in finished:
                index = running.pop(future)
                try:
                    line, why = future.result()
                except Exception as error:  # The worker was lost; each executor has its own exception for that.
                    tried[index] += 1
                    if tried[index] >= attempts:
                        raise SweepError(
                            f"a point was lost {attempts} times, the last time with: {error!r}. What was run is kept, and the same sweep goes on: "
                            f"{all_points[index]!r}"
                        ) from error
                    waiting.append(index)
                    if isinstance(error, futures.BrokenExecutor):
                        broken = error
                    continue
                if line is None:
                    failed[index] = why
                else:
                    store.add(index, line)
                done += 1
                if progress is not None:
                    progress(done, total)
            if broken is not None:
                # All points that ran on it are lost.
                waiting.extend(running.values())
                running.clear()
                workers.replace(broken)
        is_whole = True
    finally:
        if not is_whole:
            for future in running:
                future.cancel()
            _strandline.stop()
        workers.end(cancel=not is_whole)
    return failed


@contextlib.contextmanager
def _folder(out):
    if out is not None:
        yield os.fspath(out)
        return
    with tempfile.TemporaryDirectory(prefix="strandline-") as folder:
        yield folder


def sweep(points, executor=None, *, out=None, shard=None, attempts=5, progress=None):
    """Runs points, and returns a :class:`Sweep` with their results, in their order.

    ``points`` are those that :func:`points` returns, or dictionaries of the keywords of :func:`simulate`.

    ``executor`` is any executor of ``concurrent.futures``, or a function that creates one. By default all processors of this machine are used. A point that
    was lost with its worker is run again; if that breaks the executor, another one takes its place. The results do not depend on which worker
    ran which point: all bytes are the same.

    ``out`` is a folder like that of ``strandline-lab simulate --out``, with ``points.jsonl``, ``points.csv`` and ``index.html``. Points in it are not run
    again, so that an interrupted sweep continues where it was. Without ``out`` nothing is kept.

    ``shard`` selects a part: ``"2/16"`` runs the second of sixteen parts. Each has a folder of its own, and :func:`merge` combines the folders.

    ``attempts`` is the number of times that a point may be lost. ``progress`` is called with the number of points that are done, and the number of all points.

    Raises :class:`SweepError` if points cannot be run.
    """
    all_points = _points(points)
    with _folder(out) as folder:
        store = _strandline.Store(folder, [point.json for point in all_points], shard)
        try:
            failed = _run_all(store, all_points, executor, attempts, progress)
        finally:
            command = " ".join(map(str, sys.argv)) or "python"
            try:
                found = Sweep(json.loads(store.finish(command)), out)
            finally:
                store.close()
        if failed:
            first = next(iter(failed))
            raise SweepError(
                f"{len(failed)} of {len(store)} points could not be run: {all_points[first]!r}: {failed[first]}", found, failed
            )
    return found


def merge(out, *shards):
    """Combines the results of the shards of one sweep or check in the folder ``out``, like ``strandline-lab merge``.

    Returns a :class:`Sweep`, whose ``missing`` is the number of missing points, or a :class:`Checked` like :func:`check`.
    """
    merged = json.loads(_strandline.answer(["merge", "--", os.fspath(out), *map(os.fspath, shards)]))
    return Sweep(merged, out) if "combinations" in merged else Checked(merged["rows"])
