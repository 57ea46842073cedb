"""The database together with asyncio."""

import asyncio
import threading

import pytest

import strandline
from strandline import Database


@pytest.fixture
def db(tmp_path):
    with Database.open(tmp_path / "pool") as db:
        yield db


def test_transactions_run_beside_the_loop(db):
    counts = db.table("counts", str, int)

    def count(tx):
        assert threading.current_thread() is not threading.main_thread()
        number = tx[counts].get("all", 0) + 1
        tx[counts]["all"] = number
        return number

    async def main():
        numbers = await asyncio.gather(*(db.async_write(count) for _ in range(50)))
        assert sorted(numbers) == list(range(1, 51))
        return await db.async_read(lambda then: then[counts]["all"])

    assert asyncio.run(main()) == 50


def test_an_exception_takes_a_transaction_back(db):
    counts = db.table("counts", str, int)

    def fail(tx):
        tx[counts]["all"] = 1
        return 1 // 0

    async def main():
        with pytest.raises(ZeroDivisionError):
            await db.async_write(fail)
        with pytest.raises(strandline.DatabaseError):
            await db.async_read(lambda then: then[counts].__setitem__("all", 2))

    asyncio.run(main())
    assert len(counts) == 0


def test_the_loop_goes_on_while_a_transaction_waits(db):
    """A writer that waits for another one blocks neither the loop nor tickets."""
    counts = db.table("counts", str, int)
    entered, leave = threading.Event(), threading.Event()

    def slow(tx):
        entered.set()
        assert leave.wait(30)
        tx[counts]["slow"] = 1

    async def main():
        first = asyncio.create_task(db.async_write(slow))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        second = asyncio.create_task(db.async_write(lambda tx: tx[counts].update({"fast": 1})))
        await asyncio.sleep(0.05)
        assert not first.done() and not second.done()
        # The transaction of a cancelled task continues.
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        leave.set()
        await first
        with db.write(later=True) as tx:
            tx[counts]["later"] = 1
        await tx.ticket
        assert tx.ticket.is_durable

    asyncio.run(main())
    assert counts["slow"] == counts["later"] == counts["fast"] == 1
