"""The twelve tasks of docs/first-week.md, written as by somebody who has read only docs/python.md."""

import dataclasses
import itertools
import threading
from typing import Annotated

import pytest

from strandline import Database, DatabaseError


def test_1_count_visits_over_restarts(tmp_path):
    for run in (1, 2, 3):
        with Database.open(tmp_path / "visits.db") as db:
            visits = db.table("visits", str, int)
            with db.write() as tx:
                tx[visits]["home"] = tx[visits].get("home", 0) + 1
            assert visits["home"] == run


@dataclasses.dataclass
class Reading:
    level: float
    note: str | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


def test_2_look_up_structs_by_place_and_time():
    with Database.in_memory() as db:
        readings = db.table("readings", tuple[str, int], Reading)
        with db.write() as tx:
            tx[readings].update((("Bergen", hour), Reading(float(hour), tags=["tide"])) for hour in range(24))
            tx[readings]["Oslo", 3] = Reading(0.5, note="calm")
        morning = readings.values(("Bergen", 6), ("Bergen", 12))
        assert [reading.level for reading in morning] == [6, 7, 8, 9, 10, 11]
        with readings.keys(("Bergen", 0), ("Bergen", 24), reverse=True) as latest:
            assert next(latest) == ("Bergen", 23)
        assert readings["Oslo", 3] == Reading(0.5, "calm")


def test_3_limit_memory_and_refuse_a_wrong_file(tmp_path):
    Database.open(tmp_path / "shop.db", layout_name="shop", memory=64 << 20).close()
    with pytest.raises(DatabaseError) as refused:
        Database.open(tmp_path / "shop.db", layout_name="diary")
    assert refused.value.kind == "wrong-layout"
    with pytest.raises(DatabaseError) as missing:
        Database.open_existing(tmp_path / "shpo.db", layout_name="shop")
    assert missing.value.kind == "io" and "not found" in str(missing.value)


class Refusal(Exception):
    pass


def transfer(db, accounts, giver, taker, amount):
    with db.write() as tx:
        balances = tx[accounts]
        for name in (giver, taker):
            if name not in balances:
                raise Refusal(f"{name} has no account")
            balances[name] += amount if name == taker else -amount
        if balances[giver] < 0:
            raise Refusal(f"only {balances[giver] + amount} are left")


def test_4_move_money_or_refuse_it_whole():
    with Database.in_memory() as db:
        accounts = db.table("accounts", str, int)
        accounts.update({"ann": 10, "bob": 0})
        transfer(db, accounts, "ann", "bob", 7)
        with pytest.raises(Refusal, match="only 3 are left"):
            transfer(db, accounts, "ann", "bob", 7)
        # Ann's account was changed before Eve's was found missing, and has its old value again.
        with pytest.raises(Refusal, match="eve has no account"):
            transfer(db, accounts, "ann", "eve", 1)
        assert dict(accounts.items()) == {"ann": 3, "bob": 7}


def test_5_count_words_with_eight_threads():
    with Database.in_memory() as db:
        words = db.table("words", str, int)

        def count():
            for word in "the sea the shore the tide".split():
                with db.write() as tx:
                    tx[words][word] = tx[words].get(word, 0) + 1

        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert dict(words.items()) == {"sea": 8, "shore": 8, "the": 24, "tide": 8}


def test_6_take_a_job_and_store_its_result():
    with Database.in_memory() as db:
        jobs, results = db.table("jobs", int, str), db.table("results", int, int)
        jobs.update((number, f"job {number}") for number in (1, 2, 3))

        def work(is_working):
            with db.write() as tx:
                for number, text in tx[jobs].items():
                    del tx[jobs][number]
                    tx[results][number] = len(text)
                    if not is_working:
                        raise RuntimeError("it broke")
                    return True
            return False

        assert work(True)
        with pytest.raises(RuntimeError):
            work(False)
        assert next(jobs.keys()) == 2
        while work(True):
            pass
        assert dict(results.items()) == {1: 5, 2: 5, 3: 5} and len(jobs) == 0


def test_7_export_while_others_write():
    with Database.in_memory() as db:
        names = db.table("names", int, str)
        names.update((number, f"name {number}") for number in range(1000))
        exported = []

        def export(snapshot):
            with snapshot:
                exported.extend(snapshot[names].keys())

        exporting = threading.Thread(target=export, args=(db.snapshot(),))
        exporting.start()
        for number in range(1000):
            del names[number]
        exporting.join()
        assert exported == list(range(1000)) and len(names) == 0


def test_8_load_many_rows_and_page_backwards():
    with Database.in_memory() as db:
        articles = db.table("articles", int, str)
        articles.update((number, f"article {number}") for number in range(50_000))

        def page(before):
            with articles.keys(stop=before, reverse=True) as numbers:
                return list(itertools.islice(numbers, 10))

        assert page(50_000) == list(range(49_999, 49_989, -1))
        assert page(5) == [4, 3, 2, 1, 0]


def test_9_change_a_class_and_a_key(tmp_path):
    @dataclasses.dataclass
    class Book:
        name: str
        pages: Annotated[int, "u16"]

    with Database.open(tmp_path / "books.db") as db:
        db.table("books", int, Book)[7] = Book("Tides", 320)

    # The next release of the program.
    @dataclasses.dataclass
    class Book:
        __strandline_version__ = 2
        title: str = dataclasses.field(metadata={"was": "name"})
        pages: int
        authors: list[str] = dataclasses.field(default_factory=list)

    with Database.open(tmp_path / "books.db") as db:
        books = db.table("books", int, Book)
        assert books[7] == Book("Tides", 320)
        # The release after that has the books by title.
        by_title = db.table("books by title", str, tuple[int, Book])
        with db.write() as tx:
            tx[by_title].update((book.title, (number, book)) for number, book in tx[books].items())
        db.delete("books")
        assert by_title["Tides"] == (7, Book("Tides", 320))
        with pytest.raises(DatabaseError):
            books[7]


def test_10_back_up_and_restore(tmp_path):
    path, backup = tmp_path / "shop.db", tmp_path / "monday.db"
    with Database.open(path) as db:
        sold = db.table("sold", str, int)
        sold["bolt"] = 7
        db.backup(backup)
        sold.clear()  # a mistake
    kept = Database.restore(backup, path)
    with Database.open(path) as db:
        assert db.table("sold", str, int)["bolt"] == 7 and db.check() == []
    with Database.open(kept[0]) as old:
        assert len(old.table("sold", str, int)) == 0
    with pytest.raises(ValueError, match="replaced exists"):
        Database.restore(backup, path)
    assert Database.restore(backup, path, keep=False) == []


def test_11_say_how_the_database_is(tmp_path):
    with Database.open(tmp_path / "shop.db") as db:
        db.table("sold", str, int)["bolt"] = 7
        with db.snapshot():
            usage = db.usage()
        heap = usage["heap"]
        status = (
            f"{heap['allocated_bytes']} of {heap['total_bytes']} bytes in use, {usage['space']['disk_bytes']} on disk, "
            f"tables: {[table['name'] for table in db.tables()]}, {usage['snapshots']['count']} snapshots, "
            f"{usage['replayed']} transactions recovered"
        )
        assert "tables: ['sold'], 1 snapshots, 0 transactions recovered" in status
        assert 0 < heap["allocated_bytes"] <= heap["total_bytes"] and usage["space"]["disk_bytes"] > 0


def test_12_go_on_after_failures(tmp_path):
    path = tmp_path / "small.db"
    db = Database.open(path, size=16 << 20, domain="process")
    with pytest.raises(DatabaseError) as locked:
        Database.open(path)
    assert locked.value.kind == "locked"

    rows = db.table("rows", int, str)
    stored = 0
    with pytest.raises(DatabaseError) as full:
        while True:
            rows[stored] = "x" * 100_000
            stored += 1
    assert full.value.kind == "full" and len(rows) == stored
    # Makes room, and continues.
    with db.write() as tx:
        for number in range(stored // 2):
            del tx[rows][number]
    rows[stored] = "y" * 50_000

    # Events, which need not be durable one by one.
    events = db.table("events", int, str)
    for number in range(100):
        with db.write(later=True) as tx:
            tx[events][number] = "event"
    tx.ticket.wait()
    db.close()
    with pytest.raises(DatabaseError) as closed:
        len(rows)
    assert closed.value.kind == "closed"
