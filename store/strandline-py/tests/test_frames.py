"""Tables as frames."""

import dataclasses
import datetime
import enum
import uuid
from typing import Optional

import pytest

from strandline import Database

pytest.importorskip("pandas", reason="needs pandas")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


@dataclasses.dataclass
class Sale:
    day: datetime.date
    price: float
    size: Size
    buyer: Optional[uuid.UUID] = None
    tags: list[str] = dataclasses.field(default_factory=list)
    more: dict = dataclasses.field(default_factory=dict)


BUYER = uuid.UUID(int=7)
SALES = {
    ("pears", 1): Sale(datetime.date(2024, 2, 29), 2.5, Size.LARGE, BUYER, ["a"], {"x": 1}),
    ("pears", 2): Sale(datetime.date(2024, 3, 1), -1.0, Size.SMALL),
}


@pytest.fixture
def db():
    with Database.in_memory() as db:
        yield db


def test_fields_are_columns(db):
    sales = db.table("sales", tuple[str, int], Sale)
    sales.update(SALES)
    frame, arrow = sales.to_pandas(), sales.to_arrow()
    names = ["key_0", "key_1", "day", "price", "size", "buyer", "tags", "more"]
    assert list(frame.columns) == arrow.column_names == names
    assert list(frame["price"]) == [2.5, -1.0] and list(frame["size"]) == ["LARGE", "SMALL"]
    assert [str(kind) for kind in arrow.schema.types[:6]] == ["string", "int64", "date32[day]", "double", "string", "string"]
    rows = arrow.to_pylist()
    assert rows[0]["buyer"] == str(BUYER) and rows[1]["buyer"] is None
    assert rows[0]["day"] == datetime.date(2024, 2, 29) and rows[0]["tags"] == ["a"] and rows[0]["more"] == {"x": 1}
    with db.snapshot() as then:
        sales.clear()
        assert len(then[sales].to_pandas(("pears", 2))) == 1 and len(then[sales].to_arrow(None, ("pears", 2))) == 1
    # A table without rows has the same columns.
    assert list(sales.to_pandas().columns) == sales.to_arrow().column_names == names


@pytest.mark.parametrize(
    "kind, value, arrow",
    [
        (int, -1, "int64"),
        ("u8", 255, "uint8"),
        (float, 0.5, "double"),
        (bool, True, "bool"),
        (str, "é", "string"),
        (bytes, b"\0", "large_binary"),
        (datetime.datetime, datetime.datetime(2024, 1, 2, 3, 4, 5, 6), "timestamp[us]"),
        ("timestamp", datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc), "timestamp[us, tz=UTC]"),
        (Optional[int], None, "int64"),
        (tuple[int, str], (1, "a"), "struct<0: int64, 1: string>"),
        (tuple[int, tuple[int, Size]], (1, (2, Size.SMALL)), "struct<0: int64, 1: struct<0: int64, 1: string>>"),
        (list[float], [1.0], "list<item: double>"),
    ],
    ids=str,
)
def test_types_are_those_of_arrow(db, kind, value, arrow):
    table = db.table("table", int, kind)
    table[1] = value
    if isinstance(value, tuple):
        assert table.to_arrow().column_names == ["key", "value_0", "value_1"]
        table = db.table("lists", int, list[kind])
        table[1] = [value]
        assert str(table.to_arrow().schema.field("value").type) == f"list<item: {arrow}>"
        return
    found = table.to_arrow()
    assert str(found.schema.field("value").type) == arrow
    if kind is not bytes and kind != Optional[int]:
        assert table.to_pandas()["value"][0] == value
    assert found["value"].to_pylist() == [value]


def test_many_rows_go_to_others_as_a_stream(db):
    polars = pytest.importorskip("polars", reason="needs polars")
    squares = db.table("squares", int, int)
    squares.update((number, number * number) for number in range(40_000))
    assert pyarrow.table(squares).num_rows == 40_000
    frame = polars.DataFrame(squares)
    assert frame.columns == ["key", "value"] and frame["value"].sum() == sum(number * number for number in range(40_000))


def test_dictionaries_have_columns(db):
    books = db.table("books", int, "json")
    assert list(books.to_pandas().columns) == books.to_arrow().column_names == ["key", "value"]
    books.update({1: {"title": "a", "pages": 3}, 2: {"title": "b", "key": "c"}})
    assert books.to_arrow().to_pylist() == [
        {"key": 1, "title": "a", "pages": 3, "value.key": None},
        {"key": 2, "title": "b", "pages": None, "value.key": "c"},
    ]
    assert list(books.to_pandas().columns) == ["key", "title", "pages", "value.key"]
    books[3] = [1]
    assert list(books.to_pandas()["value"]) == [{"title": "a", "pages": 3}, {"title": "b", "key": "c"}, [1]]
