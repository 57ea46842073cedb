"""Ray: a cluster of two worker processes. Only runs on demand: pytest -m ray."""

import os
import signal
import time

import pytest

import strandline
from conftest import files

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def executor():
    ray = pytest.importorskip("ray")
    from strandline.ray import RayExecutor

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with RayExecutor() as executor:
        assert executor._max_workers == 2
        yield executor
    ray.shutdown()


def test_a_cluster_finds_the_same(executor, points, tmp_path):
    strandline.sweep(points, out=tmp_path / "here")
    strandline.sweep(points, executor, out=tmp_path / "ray")
    assert files(tmp_path / "here") == files(tmp_path / "ray")
    pids = {executor.submit(os.getpid).result() for _ in range(4)}
    assert os.getpid() not in pids


def test_a_killed_worker_changes_nothing(executor, slow_points, tmp_path):
    strandline.sweep(slow_points, out=tmp_path / "calm")
    killed = []

    def progress(done, total):
        if done in (3, 6):
            # A worker that has run a task is running the next one.
            pid = busy_worker()
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    strandline.sweep(slow_points, executor, out=tmp_path / "killed", progress=progress)
    assert len(killed) == 2
    assert files(tmp_path / "calm") == files(tmp_path / "killed")


def busy_worker():
    """Returns a worker process of Ray on this machine that runs a task."""
    for _ in range(500):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if line.startswith(b"ray::_call"):
                return int(pid)
        time.sleep(0.01)
    raise AssertionError("no worker runs a task")
