"""Types of keys and values."""

import dataclasses
import datetime
import enum
import json
import random
import subprocess
import sys
import uuid
from typing import Annotated, Any, Optional

import pytest

import strandline
from strandline import Database


@pytest.fixture
def db():
    with Database.in_memory() as db:
        yield db


UTC = datetime.timezone.utc
EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
DAYS = [datetime.date.min, datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), datetime.date.max]
TIMES = [
    datetime.datetime.min,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2024, 2, 29, 0, 0, 0, 1),
    datetime.datetime.max,
]
MOMENTS = [datetime.datetime(1, 1, 2, tzinfo=UTC), datetime.datetime(2024, 2, 29, 5, 45, tzinfo=EAST), datetime.datetime(9999, 12, 30, tzinfo=UTC)]
FLOATS = [float("-inf"), -1e300, -1.5, 0.0, 5e-324, 1.0, 1e300, float("inf")]
UUIDS = [uuid.UUID(int=number) for number in (0, 1, 1 << 64, (1 << 128) - 1)]

KEYS = [
    (float, FLOATS),
    (bool, [False, True]),
    (datetime.date, DAYS),
    (datetime.datetime, TIMES),
    ("timestamp", MOMENTS),
    (uuid.UUID, UUIDS),
    ("u8", [0, 255]),
    ("i8", [-128, -1, 0, 127]),
    ("u16", [0, 65535]),
    ("i32", [-(1 << 31), (1 << 31) - 1]),
    ("u64", [0, (1 << 64) - 1]),
    (int, [-(1 << 63), 0, (1 << 63) - 1]),
    (bytes, [b"", b"\0", b"\0\0", b"a", b"a\0b", b"b"]),
    (str, ["", "\0", "a", "a\0", "ab", "é", "\U0001f350"]),
    (tuple[str, int], [("", 1), ("a", -1), ("a", 0), ("a\0", -5), ("b", -9)]),
    (tuple[datetime.date, tuple[float, bool]], [(DAYS[0], (1.0, True)), (DAYS[1], (-1.0, False)), (DAYS[1], (-1.0, True))]),
    (tuple[uuid.UUID], [(one,) for one in UUIDS]),
]


@pytest.mark.parametrize("kind, keys", KEYS, ids=str)
def test_keys_are_in_the_order_of_python(db, kind, keys):
    table = db.table("table", kind, int)
    assert sorted(keys) == keys
    table.update((key, at) for at, key in random.Random(7).sample(list(enumerate(keys)), len(keys)))
    assert list(table) == keys and list(table.values()) == list(range(len(keys)))
    assert list(table.keys(reverse=True)) == keys[::-1]
    for at, key in enumerate(keys):
        assert table[key] == at and key in table
        assert list(table.keys(key)) == keys[at:] and list(table.keys(None, key)) == keys[:at]
    assert table.remove(keys[0]) == 0 and keys[0] not in table
    # They can be values, too.
    values = db.table("values", int, kind)
    values.update(enumerate(keys))
    assert list(values.values()) == keys
    assert db.check() == []


def test_equal_keys_are_one(db):
    table = db.table("floats", float, str)
    table[0.0] = "zero"
    table[-0.0] = "the same"
    assert list(table.items()) == [(0.0, "the same")]
    with pytest.raises(ValueError, match="nan"):
        table[float("nan")] = "x"
    moments = db.table("moments", "timestamp", int)
    moments[datetime.datetime(2024, 2, 29, 5, 45, tzinfo=EAST)] = 1
    assert moments[datetime.datetime(2024, 2, 29, tzinfo=UTC)] == 1 and len(moments) == 1
    values = db.table("values", int, float)
    values[1], values[2] = float("nan"), -0.0
    assert values[1] != values[1] and str(values[2]) == "-0.0"
    assert db.table("ints", float, int).insert(1, 2) is None and db.table("ints", float, int)[1.0] == 2


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


@dataclasses.dataclass
class Origin:
    country: str
    picked: datetime.date


@dataclasses.dataclass
class Pear:
    colour: Colour
    grams: float
    origin: Optional[Origin] = None
    ripe: "bool" = False
    notes: list[str] = dataclasses.field(default_factory=list)
    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    number: Annotated[int, "u64"] = 7
    pair: tuple[int, bytes] = (1, b"")


@dataclasses.dataclass(frozen=True)
class Nothing:
    pass


PEARS = [
    Pear(Colour.GREEN, 1.5),
    Pear(Colour.RED, -0.0, Origin("é", DAYS[2]), True, ["a", ""], {"b": [1, None]}, (1 << 64) - 1, (-1, b"\0")),
]


def test_values_are_data_classes_and_enumerations(tmp_path):
    path = tmp_path / "pool"
    with Database.open(path) as db:
        pears = db.table("pears", int, Pear)
        pears.update(enumerate(PEARS))
        assert pears.insert(0, PEARS[1]) == PEARS[0]
        colours, nothing = db.table("colours", str, Colour), db.table("nothing", int, Nothing)
        colours["a"] = Colour.RED
        nothing[1] = Nothing()
        several = db.table("several", int, tuple[int | None, list[Pear]])
        several[1] = (None, PEARS)
    with Database.open(path) as db:
        assert list(db.table("pears", int, Pear).values()) == [PEARS[1], PEARS[1]]
        assert db.table("colours", str, Colour)["a"] is Colour.RED
        assert db.table("nothing", int, Nothing)[1] == Nothing()
        assert db.table("several", int, tuple[int | None, list[Pear]])[1] == (None, PEARS)
        assert db.check() == []
    # The command shows fields by their names.
    dump = [sys.executable, "-m", "strandline", "pool", "dump", str(path), "--table", "pears", "--json"]
    shown = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    row = json.loads([line for line in shown.splitlines() if "GREEN" in line or "RED" in line][-1])
    assert row["value"]["origin"] == {"country": "é", "picked": "2024-02-29"} and row["value"]["colour"] == "RED"


def test_a_class_may_change(db):
    @dataclasses.dataclass
    class Person:
        name: str
        fax: int

    db.table("people", int, Person)[1] = Person("Ann", 12)

    def changed(version):
        @dataclasses.dataclass
        class Person:
            __strandline_version__ = version
            name: str
            town: str = "Bergen"

        return Person

    with pytest.raises(strandline.DatabaseError, match="other types"):
        db.table("people", int, changed(1))
    later = changed(2)
    assert db.table("people", int, later)[1] == later("Ann")


@dataclasses.dataclass
class Tree:
    left: "Optional[Tree]"


@dataclasses.dataclass
class Odd:
    anything: object


@dataclasses.dataclass
class Made:
    made: int = dataclasses.field(init=False)


class Flags(enum.Flag):
    ONE = 1


def other_pear():
    @dataclasses.dataclass
    class Pear:
        pears: int

    return Pear


@pytest.mark.parametrize(
    "key, value, why",
    [
        (dict, int, "JSON has no order"),
        (list[int], int, "choose a tuple"),
        (Pear, int, "tuple of its fields"),
        (Colour, int, "members' values"),
        (tuple[int, Colour], int, "members' values"),
        (int, Tree, "holds itself"),
        (int, Odd, "Odd.anything: a table cannot hold object"),
        (int, Made, "not a parameter"),
        (int, Flags, "choose int"),
        (int, list, "cannot hold list"),
        (int, tuple[int, ...], r"cannot hold tuple\[int, ...\]"),
        (int, int | str, "cannot hold"),
        (int, "i128", "cannot hold 'i128'"),
        (int, 5, "cannot hold 5"),
        (int, [], "cannot hold"),
        (int, tuple[Pear, other_pear()], "two classes are named Pear"),
    ],
    ids=str,
)
def test_impossible_types_are_refused(db, key, value, why):
    with pytest.raises(strandline.UsageError, match=why):
        db.table("table", key, value)
    assert db.tables() == []


@pytest.mark.parametrize(
    "kind, value, error, why",
    [
        (int, "1", TypeError, "expected int, found str"),
        ("u8", 256, OverflowError, "an int from 0, of 8 bits, found 256"),
        ("i8", -129, OverflowError, "an int of 8 bits"),
        (int, 1 << 99, OverflowError, "64 bits"),
        (float, "x", TypeError, "expected float"),
        (bool, 1, TypeError, "expected bool, found int"),
        (bytes, "x", TypeError, "expected bytes"),
        (bytes, [1, 2], TypeError, "expected bytes, found list"),
        (str, b"x", TypeError, "expected str"),
        (str, "\ud800", ValueError, "surrogate"),
        (datetime.date, TIMES[2], TypeError, "expected date, found datetime"),
        (datetime.datetime, DAYS[2], TypeError, "expected datetime, found date"),
        (datetime.datetime, MOMENTS[1], TypeError, "without a time zone"),
        ("timestamp", TIMES[2], TypeError, "with a time zone"),
        (uuid.UUID, str(UUIDS[1]), TypeError, "expected UUID"),
        (tuple[int, str], (1,), TypeError, r"expected tuple\[int, str\], found a tuple of 1"),
        (tuple[int, str], [1, "a"], TypeError, "found list"),
        (tuple[int, str], (1, 2), TypeError, "expected str, found int"),
        (list[int], (1,), TypeError, "expected list"),
        (Colour, "RED", TypeError, "expected Colour, found str"),
        (Pear, Origin("a", DAYS[2]), TypeError, "expected Pear, found Origin"),
        (Origin, Origin("a", "b"), TypeError, "Origin.picked: expected date, found str"),
        (Optional[int], "x", TypeError, "expected int"),
    ],
    ids=str,
)
def test_what_is_of_another_type_is_refused(db, kind, value, error, why):
    table = db.table("table", int, kind)
    with pytest.raises(error, match=why):
        table[1] = value
    assert len(table) == 0


# Words that mean nothing in Python.
RUST = ["Vec<", "String", "i64", "f64", "Option<", "::", "(i", "closure", "Options"]


def test_messages_name_types_as_python_does(db, tmp_path):
    said = []

    def refused(call):
        with pytest.raises((strandline.Error, TypeError, OverflowError, KeyError)) as found:
            call()
        said.append(str(found.value))

    opened = [int, str, bytes, float, tuple[int, tuple[str, float]], Optional[list[int]], uuid.UUID, "u16", Pear, Colour]
    for at, one in enumerate(opened):
        db.table(f"table {at}", int, one)
        for other in opened:
            if other is not one:
                refused(lambda: db.table(f"table {at}", int, other))
    refused(lambda: db.table("table 0", tuple[int, str], int))
    with db.write() as tx:
        refused(lambda: db.table("table 0", int, int)[1])
        refused(db.snapshot)
        refused(lambda: tx[db])
    gone = db.table("gone", int, int)
    db.delete("gone")
    refused(lambda: gone[1])
    refused(lambda: db.table("table 0", int, int).pieces(1))
    with Database.open(tmp_path / "pool") as other:
        other.table("numbers", int, int)
        refused(lambda: Database.open(tmp_path / "pool"))
    with Database.open(tmp_path / "pool", read_only=True) as other:
        refused(lambda: other.table("numbers", int, int).insert(1, 2))
        refused(lambda: other.table("new", int, int))
    refused(lambda: Database.open(tmp_path / "none" / "pool"))
    refused(lambda: Database.open_existing(tmp_path / "none"))
    assert len(said) > 90
    for text in said:
        assert not [word for word in RUST if word in text], text
    assert "value: int is expected to be str" in said[0]
    assert any("tuple[int, tuple[str, float]]" in text for text in said)


def test_tables_are_described_with_the_names_of_python(db):
    db.table("pairs", tuple[str, datetime.date], Optional[list[float]])
    assert db.tables() == [{"name": "pairs", "kind": "table", "key": "tuple[str, date]", "value": "Optional[list[float]]"}]


def test_a_repr_is_short(db, tmp_path):
    table = db.table("pears", tuple[str, int], Pear)
    table["a", 1] = PEARS[1]
    long = db.table("n" * 3000, int, str)
    assert repr(table) == "<Table 'pears': tuple[str, int] to Pear>".replace("'", '"')
    with Database.open(tmp_path / "pool") as other:
        assert repr(other) == f'<Database "{tmp_path.resolve() / "pool"}": open>'
    assert repr(other).endswith(": closed>")
    with db.snapshot() as then, then[table].items() as items:
        assert repr(then).endswith(": open>") and repr(then[table]).startswith('<Table "pears" in a snapshot')
        assert repr(items) == '<iterator over the items of "pears">'
    assert repr(then).endswith(": closed>") and repr(items) == "<iterator over items>"
    transaction = db.write(later=True)
    assert repr(transaction).endswith(": not begun>")
    with transaction:
        assert repr(transaction).endswith(": under way>")
        assert repr(transaction[table]).startswith('<Table "pears" in a transaction')
    assert repr(transaction).endswith(": over>")
    transaction.ticket.wait()
    assert repr(transaction.ticket) == "<Ticket: durable>"
    assert repr(strandline.Rows([{"a": 1}] * 1000)) == "<Rows: 1000 rows>"
    found = strandline.simulate(workload="queue", transactions=20, warm_up_transactions=0, log_bytes=65536)
    shown = [table, long, db, then, items, transaction, transaction.ticket, found, strandline.schemes(), strandline.points(workload="queue")[0]]
    assert all(len(repr(one)) <= 120 and "é" not in repr(one) for one in shown), [repr(one) for one in shown]
