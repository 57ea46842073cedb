"""Sweeps on executors: with points in any order, with lost workers, and with earlier results."""

import concurrent.futures as futures
import json
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading

import pytest

import strandline
from conftest import files

SPAWN = multiprocessing.get_context("spawn")


class Backwards(futures.Executor):
    """Runs the points in another order, one after another."""

    _max_workers = 4

    def __init__(self):
        self._begun = []

    def submit(self, fn, /, *args, **kwargs):
        future = futures.Future()
        self._begun.append((future, fn, args, kwargs))
        random.Random(len(self._begun)).shuffle(self._begun)
        threading.Timer(0.01, self._run).start()
        return future

    def _run(self):
        future, fn, args, kwargs = self._begun.pop()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)


def test_the_result_does_not_depend_on_who_ran_what(points, tmp_path):
    one = strandline.sweep(points, futures.ThreadPoolExecutor(1), out=tmp_path / "one")
    assert [row["keys"] for row in one] == [point.keys for point in points]
    first = files(tmp_path / "one")
    for name, executor in [
        ("all", None),
        ("backwards", Backwards()),
        ("processes", futures.ProcessPoolExecutor(2, mp_context=SPAWN)),
        ("made", lambda: futures.ThreadPoolExecutor(2)),
    ]:
        again = strandline.sweep(points, executor, out=tmp_path / name)
        assert again == one and files(tmp_path / name) == first, name
    assert "A sweep of 6 runs" in (tmp_path / "one/index.html").read_text()


def test_a_point_is_the_run(points, short):
    found = strandline.sweep(points)
    alone = strandline.simulate(scheme="base", set={"nvm.write_ns": 200}, **short)
    at = [(row["result"]["scheme"], row["keys"]["nvm.write_ns"]) for row in found].index(("base", "200"))
    assert found[at]["result"] == alone["result"]
    assert pickle.loads(pickle.dumps(points[0])) == points[0] and "bppm" in repr(points[-1])


def test_the_command_finds_the_same(points, short, tmp_path):
    strandline.sweep(points, out=tmp_path / "python")
    flags = "--scheme base,bppm --seeds 1 --sweep nvm.write_ns=100,200,400 --workload queue --transactions 20 --warm-up 0 --log-size 64K"
    program = [pathlib.Path(sys.executable).parent / "strandline-lab", "simulate", *flags.split(), "--out"]
    done = subprocess.run([*program, tmp_path / "command"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "python") == files(tmp_path / "command")
    # Each continues with the results of the other.
    done = subprocess.run([*program, tmp_path / "python"], capture_output=True, text=True)
    assert "6 runs were known already" in done.stderr


def test_a_list_of_runs_is_a_sweep(short, tmp_path):
    given = [dict(short, scheme="bppm", threads=threads, set={"nvm.write_ns": ns}) for threads in (1, 2) for ns in (100, 300)]
    found = strandline.sweep(given, out=tmp_path)
    assert [row["keys"] for row in found] == [
        {"threads": str(threads), "nvm.write_ns": str(ns)} for threads in (1, 2) for ns in (100, 300)
    ]
    frame = found.to_pandas()
    assert frame["threads"].tolist() == [1, 1, 2, 2] and frame["nvm.write_ns"].tolist() == [100, 300] * 2
    assert (frame["tx_per_s"] > 0).all()
    assert found.to_polars().columns == frame.columns.tolist()
    header = (tmp_path / "points.csv").read_text().splitlines()[0]
    assert header == ",".join(frame.columns)
    for wrong, part in [([{"magic": 1}], "magic"), ([1], "points"), ([dict(short, scheme=["base", "bppm"])], "combinations")]:
        with pytest.raises(strandline.UsageError, match=part):
            strandline.sweep(wrong)


def test_what_is_known_is_not_run_again(points, tmp_path):
    strandline.sweep(points[:4], out=tmp_path / "some")
    seen = []

    class Counting(futures.ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            seen.append(args)
            return super().submit(fn, *args, **kwargs)

    progress = []
    strandline.sweep(points, Counting(2), out=tmp_path / "some", progress=lambda *counts: progress.append(counts))
    assert len(seen) == 2 and progress == [(5, 6), (6, 6)]
    strandline.sweep(points, out=tmp_path / "all")
    assert files(tmp_path / "some") == files(tmp_path / "all")



@pytest.mark.parametrize("given", ["an executor", "a function"])
def test_a_killed_worker_changes_nothing(slow_points, tmp_path, given):
    strandline.sweep(slow_points, out=tmp_path / "calm")
    made = []

    def make():
        made.append(futures.ProcessPoolExecutor(2, mp_context=SPAWN))
        return made[-1]

    killed = []

    def progress(done, total):
        # Kills a worker in the middle, and only once.
        if done >= 3 and not killed:
            killed.append(next(iter(made[0]._processes)))
            os.kill(killed[0], signal.SIGKILL)

    executor = make() if given == "an executor" else make
    strandline.sweep(slow_points, executor, out=tmp_path / "killed", progress=progress)
    assert killed and len(made) == (1 if given == "an executor" else 2)
    assert files(tmp_path / "killed") == files(tmp_path / "calm")


def test_a_point_that_is_lost_every_time_ends_the_sweep(points, tmp_path):
    class Losing(futures.ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            if args[0] == points[2].json:
                future = futures.Future()
                future.set_exception(ConnectionError("the node has gone"))
                return future
            return super().submit(fn, *args, **kwargs)

    with pytest.raises(strandline.SweepError, match="lost 3 times.*the node has gone"):
        strandline.sweep(points, Losing(2), out=tmp_path, attempts=3)
    # The other results are kept, and another call continues.
    assert strandline.sweep(points, out=tmp_path).missing == 0


def test_what_cannot_be_run_is_told_and_the_rest_is_run(points, short):
    # Its thread count does not fit into the log's.
    impossible = strandline.points(machine="atom", hardware="loc-wal", workload="queue", transactions=20)
    with pytest.raises(strandline.SweepError, match="1 of 3 points.*one core") as raised:
        strandline.sweep([points[0], *impossible, points[1]])
    assert list(raised.value.failed) == [1] and len(raised.value.result) == 2


def test_an_interrupted_sweep_goes_on(slow_points, tmp_path):
    def interrupt(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        strandline.sweep(slow_points, out=tmp_path / "some", progress=interrupt)
    there = (tmp_path / "some/points.jsonl").read_text().splitlines()
    assert 4 <= len(there) < len(slow_points)
    strandline.sweep(slow_points, out=tmp_path / "some")
    strandline.sweep(slow_points, out=tmp_path / "all")
    assert files(tmp_path / "some") == files(tmp_path / "all")


def test_shards_are_merged(points, tmp_path):
    strandline.sweep(points, out=tmp_path / "one")
    parts = [tmp_path / f"part{number}" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        assert len(strandline.sweep(points, out=part, shard=f"{number}/3")) == 2
    assert strandline.merge(tmp_path / "all", *parts[:2]).missing == 2
    merged = strandline.merge(tmp_path / "all", *parts)
    assert merged.missing == 0 and len(merged.to_pandas()) == 6
    assert files(tmp_path / "all") == files(tmp_path / "one")
    with pytest.raises(strandline.UsageError, match="2/16"):
        strandline.sweep(points, shard="4/3")


def test_two_sweeps_do_not_share_a_folder(points, tmp_path):
    store = strandline._strandline.Store(tmp_path, [point.json for point in points])
    with pytest.raises(strandline.Error, match="another process is writing"):
        strandline.sweep(points, out=tmp_path)
    with pytest.raises(strandline.UsageError, match="another build"):
        line = json.loads(strandline._strandline.run_point(points[0].json))
        store.add(0, json.dumps({**line, "program": "another"}))
