"""Runs the examples of the guide."""

import asyncio
import pathlib
import re
import textwrap

import pytest

from strandline import Database

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


@pytest.mark.skipif(not GUIDE.exists(), reason="needs docs/python.md of a checkout")
def test_the_guide_to_the_database_runs(tmp_path, monkeypatch, capsys):
    polars = pytest.importorskip("polars", reason="the guide makes a frame of polars")
    for name in ("numpy", "pandas", "pyarrow"):
        pytest.importorskip(name, reason=f"the guide uses {name}")
    monkeypatch.chdir(tmp_path)
    pathlib.Path("tide.mp4").write_bytes(bytes(number % 256 for number in range(2 << 20)))
    guide = GUIDE.read_text()
    guide = guide[guide.index("\n## 2. ") : guide.index("\n## 9. ")]
    first, *others = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names = {"__name__": "guide", "polars": polars}
    exec(first, names)
    assert capsys.readouterr().out == "apples 37\n"
    db = names["db"] = Database.open("shop.pool")
    names |= {"stock": db.table("stock", str, int), "orders": db.table("orders", int, dict)}
    for block in others:
        if "= await " not in block:
            exec(block, names)
            continue
        exec("async def block():\n" + textwrap.indent(block, "    ") + "    return total, count", names)
        assert asyncio.run(names["block"]()) == (None, 1)
    assert len(others) == 8
    assert list(names["frame"].columns) == ["key_0", "key_1", "item", "price", "count", "paid"]
    assert dict(names["results"].items()) == {1: "peel: done"} and list(names["jobs"]) == [2]
    assert names["arrow"].num_rows == 1 and names["stock"]["pears"] == 7 and names["stock"]["plums"] == 5
    assert pathlib.Path("copy.mp4").read_bytes() == pathlib.Path("tide.mp4").read_bytes()
    assert sum(len(one) for one in names["samples"]) == (2 << 20) // 4 and names["orders"][2]["item"] == "pears"
    del names["samples"]
    db.close()
