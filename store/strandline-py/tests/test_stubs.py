"""The types of the package."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("typed_program.py")


def test_a_typed_program_is_accepted_and_runs():
    pytest.importorskip("mypy", reason="needs mypy")
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", PROGRAM], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    subprocess.run([sys.executable, PROGRAM], check=True)


def test_a_wrong_program_is_refused(tmp_path):
    pytest.importorskip("mypy", reason="needs mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import strandline\n"
        "table = strandline.Database.in_memory().table('t', int, str)\n"
        "table['a'] = 'b'\n"
        "table[1] = 2\n"
        "table.pieces(1)\n"
    )
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", wrong], capture_output=True, text=True)
    assert [line.split(":")[1] for line in checked.stdout.splitlines() if "error" in line and "wrong.py" in line] == ["3", "4", "5"], checked.stdout
