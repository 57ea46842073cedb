"""A program that `mypy --strict` accepts: `test_stubs.py` checks it, and runs it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import io
import uuid

from strandline import Database, Snapshot, Table, Transaction


@dataclasses.dataclass
class Sale:
    item: str
    pieces: int


def main() -> None:
    with Database.in_memory() as db:
        sales = db.table("sales", tuple[datetime.date, int], Sale)
        key = (datetime.date(2026, 11, 30), 1)
        sales[key] = Sale("pears", 3)
        with db.write() as tx:
            old: Sale | None = tx[sales].insert(key, Sale("pears", 4))
        assert old is not None and old.pieces == 3
        with db.snapshot() as then, then[sales].items(reverse=True) as items:
            for (day, number), sale in items:
                assert day.year == 2026 and number + sale.pieces == 5
        films: Table[uuid.UUID, bytes] = db.table("films", uuid.UUID, bytes)
        name = uuid.uuid4()
        films[name] = b"film" * 10_000
        pieces: list[memoryview] = films.pieces(name)
        assert films.write_to(name, io.BytesIO()) == sum(len(piece) for piece in pieces)
        with films.open(name) as film:
            assert film.read(4) == b"film"
        optional = db.table("optional", "u64", float | None)
        optional[1] = None

        def count(tx: Transaction) -> int:
            return len(tx[sales])

        def read(then: Snapshot) -> str:
            return then[sales][key].item

        async def both() -> tuple[int, str]:
            return await db.async_write(count), await db.async_read(read)

        assert asyncio.run(both()) == (1, "pears")
        assert list(sales.keys()) == [key] == list(sales)


if __name__ == "__main__":
    main()
