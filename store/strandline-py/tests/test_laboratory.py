"""The simulator, the crash checker and the lists."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import strandline
from strandline import _flags, _strandline

LITMUS = """name: two
line A: x
line B: y
thread:
store x 1
store y 1
ask: y=1 x=0
"""


def command(*arguments, name="strandline-lab"):
    program = pathlib.Path(sys.executable).parent / name
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_run_is_what_the_command_finds(short):
    found = strandline.simulate(machine="loc", set={"nvm.write_ns": 500}, scheme="bppm", crash_at="50%", **short)
    flags = "--machine loc --set nvm.write_ns=500 --scheme bppm --crash-at 50% --workload queue --transactions 20"
    code, text, _ = command("simulate", *flags.split(), "--warm-up", 0, "--log-size", "64K", "--json")
    expected = json.loads(text)
    assert code == 0
    for key in ("schema", "result", "crashes", "notes"):
        assert found[key] == expected[key]
    assert found["result"]["machine"]["nvm"]["write_ns"] == 500
    assert found.keys() == expected.keys()


def test_every_parameter_of_the_command_is_a_keyword():
    # Flags for the form of the output, and for sweeps.
    not_here = {"json", "csv", "banks", "help"}
    of_sweeps = {"out", "shard", "sweep", "seeds"}
    for subcommand, function, left_out in [("simulate", strandline.simulate, of_sweeps), ("check", strandline.check, set())]:
        known = {one["name"] for one in json.loads(_strandline.parameters(subcommand))} - not_here - left_out
        assert known == {_flags.flag(name) for name in function.__kwdefaults__}
    assert "The seed of the random numbers (default 1)" in strandline.simulate.__doc__
    known = strandline.points.__kwdefaults__.keys() - {"sweep", "seeds"}
    assert known == strandline.simulate.__kwdefaults__.keys() - {"trace", "record", "crash_at"}


def test_what_cannot_be_is_refused_with_the_commands_words(short):
    for more, part in [
        ({"scheme": "magic"}, "bppm"),
        ({"machine": "vax"}, "loc, atom"),
        ({"threads": 0}, "--threads"),
        ({"set": {"cores.count": 65}}, "1 to 64"),
        ({"scheme": ["base", "bppm"]}, "sweep"),
        ({"crash_at": "soon"}, "50%"),
    ]:
        with pytest.raises(strandline.UsageError, match=part) as raised:
            strandline.simulate(**{**short, **more})
        assert "Usage:" not in str(raised.value) and "--help" not in str(raised.value)
    with pytest.raises(ValueError):
        strandline.simulate(scheme="magic")
    with pytest.raises(TypeError):
        strandline.simulate(value_size=8)


def test_frames(short):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    found = strandline.simulate(**short)
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 1
    assert frame["tx_per_s"][0] == found["result"]["tx_per_s"] and frame["machine"][0] == "opteron"
    frame = found.to_polars()
    assert isinstance(frame, polars.DataFrame) and frame["workload"].to_list() == ["queue"]
    assert "loc" in strandline.machines().to_pandas()["name"].tolist()


def test_lists():
    assert {"loc", "atom"} <= {one["name"] for one in strandline.machines()}
    assert {"bppm", "base"} <= {one["name"] for one in strandline.schemes()}
    assert {"hash", "sps"} <= {one["name"] for one in strandline.workloads()}
    assert "loc-wal" in {one["name"] for one in strandline.hardware()}
    assert strandline.describe("loc-wal")[0]["parameters"][0]["name"] == "speculation"
    with pytest.raises(strandline.UsageError, match="magic"):
        strandline.describe("magic")


def test_check_finds_what_is_left_out():
    sound = strandline.check(scheme="base", workload="sps", samples=2, threads=1)
    assert len(sound) == 3 and not sound.violations
    broken = strandline.check(scheme="base", workload="sps", mutants=True, limit_seconds=20)
    assert broken.violations and broken.violations[0]["violation"]["what"]
    assert "counts.states" in broken.to_pandas()
    with pytest.raises(strandline.UsageError, match="no scheme"):
        strandline.check(scheme="magic")


def test_a_check_in_two_shards_is_the_check(tmp_path):
    asked = {"scheme": "base", "workload": "sps", "samples": 4, "threads": 1}
    counted = lambda rows: [row["counts"] for row in rows]
    for shard in (1, 2):
        strandline.check(**asked, out=tmp_path / str(shard), shard=f"{shard}/2")
    merged = strandline.merge(tmp_path / "all", tmp_path / "1", tmp_path / "2")
    assert counted(merged) == counted(strandline.check(**asked))
    assert isinstance(merged, strandline.Checked)


def test_litmus(tmp_path):
    file = tmp_path / "two.litmus"
    file.write_text(LITMUS)
    found = strandline.litmus(file, setting=["line", "flush-on-fail"])
    assert [(row["setting"], row["asks"][0]["verdict"]) for row in found] == [("line", "allowed"), ("flush-on-fail", "forbidden")]
    assert found.to_polars()["ask"].to_list() == ["y=1 x=0"] * 2
    with pytest.raises(strandline.UsageError, match="nowhere"):
        strandline.litmus(tmp_path / "nowhere")


LONG = dict(workload="queue", transactions=100_000_000)


def test_the_interpreter_goes_on_meanwhile():
    """A Python thread counts during a run, and ends the run."""
    ended = []

    def run():
        try:
            strandline.simulate(**LONG)
        except strandline.Stopped as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    assert thread.is_alive()
    _strandline.stop()
    thread.join(20)
    assert not thread.is_alive() and ended


@pytest.mark.parametrize("call", [f"simulate(**{LONG!r})", "check(samples=10**9, limit_seconds=1000)"])
def test_control_c_ends_it(call):
    program = f"import strandline, sys\nprint('begun', flush=True)\ntry:\n strandline.{call}\nexcept KeyboardInterrupt:\n print('ended')"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(1)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    text, _ = child.communicate(timeout=30)
    assert text == "ended\n" and child.returncode == 0 and time.monotonic() - began < 10


def test_the_commands_are_there(tmp_path):
    code, text, _ = command("list", "--json")
    assert code == 0 and json.loads(text)["schema"] == 1
    code, _, error = command("simulate", "--scheme", "magic")
    assert code == 2 and "magic" in error
    code, _, error = command("torture")
    assert code == 2 and "cargo install" in error
    for name in ("strandline", "strandline-check", "strandline-lab"):
        code, text, _ = command("--version", name=name)
        assert code == 0 and text.split()[0] == name
    assert (pathlib.Path(strandline.__file__).parent / "py.typed").exists()
