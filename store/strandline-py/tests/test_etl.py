"""Runs the example program."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("pandas", reason="the example needs pandas")

EXAMPLE = pathlib.Path(__file__).parent.parent / "examples" / "etl.py"
SALES = """day,item,pieces,price,channel
2026-11-26, Pears ,3,2.50,shop
2026-11-26,plums,1,4.00,web
2026-11-27,Pears,2,2.50,web
2026-11-27,apples,many,1.00,shop
2026-11-27,apples,4,1.25,shop
2026-11-28,plums,1,4.00,web
2026-11-31,plums,1,4.00,web
"""
REPORT = "day,SHOP,WEB\n2026-11-26,7.5,4.0\n2026-11-27,5.0,4.5\n2026-11-28,0.0,3.6\n"


def run(folder):
    arguments = [folder / "sales.csv", folder / "shop.pool", folder / "report.csv"]
    done = subprocess.run([sys.executable, EXAMPLE, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_makes_its_report(tmp_path):
    (tmp_path / "sales.csv").write_text(SALES)
    said = run(tmp_path)
    assert said.startswith("7 rows read, 5 sales, 2 refused\n") and said.endswith("backup: 5 sales\n")
    assert (tmp_path / "report.csv").read_text() == REPORT
    # Another run finds no new rows, and does not lower prices again.
    assert run(tmp_path).startswith("0 rows read, 5 sales, 2 refused\n")
    assert (tmp_path / "report.csv").read_text() == REPORT
    # More rows in the same file.
    with open(tmp_path / "sales.csv", "a") as file:
        file.write("2026-11-29,pears,1,1.00,shop\n")
    assert run(tmp_path).startswith("1 rows read, 6 sales, 2 refused\n")
    assert (tmp_path / "report.csv").read_text().endswith("2026-11-29,1.0,0.0\n")


def test_it_stays_short():
    assert len(EXAMPLE.read_text().splitlines()) < 150
