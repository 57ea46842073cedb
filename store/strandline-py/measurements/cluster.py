"""Measures a sweep of 200 points: in one process with one thread, and with Ray and two worker processes, one of which may be killed. Needs Ray and two free processors.

Prints the times and their ratio, and fails if the bytes differ.
"""

import os
import pathlib
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import ray
import strandline
from strandline.ray import RayExecutor

POINTS = strandline.points(
    machine="loc",
    scheme=["bppm", "loc-wal"],
    workload="sps",
    transactions=4000,
    log_bytes=65536,
    sweep={"nvm.write_ns": [100 * step for step in range(1, 11)], "nvm.read_ns": [50, 100], "seed": [1, 2, 3, 4, 5]},
)


def timed(name, executor, folder, progress=None):
    """Sweeps, and returns the files and the seconds."""
    began = time.perf_counter()
    found = strandline.sweep(POINTS, executor, out=folder / name, progress=progress)
    seconds = time.perf_counter() - began
    assert len(found) == len(POINTS) == 200
    print(f"{name}: {seconds:.1f} s", flush=True)
    return [(folder / name / file).read_bytes() for file in ("points.jsonl", "points.csv")], seconds


def kill_a_worker(done, total):
    """Kills a worker of Ray in the middle."""
    if done != total // 2:
        return
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::_call"):
            os.kill(int(pid), signal.SIGKILL)
            print(f"killed worker {pid} after {done} points", flush=True)
            return


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
with tempfile.TemporaryDirectory() as folder, RayExecutor() as cluster:
    folder = pathlib.Path(folder)
    # Afterwards the workers are there, and the package is loaded.
    strandline.sweep(POINTS[:4], cluster)
    alone, seconds = timed("one process", ThreadPoolExecutor(1), folder)
    together, parallel = timed("two workers", cluster, folder)
    killed, _ = timed("two workers, one killed", cluster, folder, kill_a_worker)
    assert alone == together == killed, "the bytes differ"
    print(f"the same bytes; two workers take {parallel / seconds:.2f} of one process's time")
ray.shutdown()
