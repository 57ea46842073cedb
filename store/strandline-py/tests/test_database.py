"""The database."""

import asyncio
import io
import json
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import strandline
from strandline import Database


@pytest.fixture
def db():
    with Database.in_memory() as db:
        yield db


def test_what_is_written_is_there_when_it_is_opened_again(tmp_path):
    path = tmp_path / "pool"
    with Database.open(path) as db:
        books = db.table("books", int, "json")
        books[4711] = {"title": "Persistence", "tags": ["systems", "é"], "pages": None}
        assert str(db.path) == str(path.resolve())
    with Database.open(path, read_only=True) as db:
        assert db.table("books", int, "json")[4711] == {"title": "Persistence", "tags": ["systems", "é"], "pages": None}
        assert db.tables() == [{"name": "books", "kind": "table", "key": "int", "value": "str"}]
        assert db.check() == []
        with pytest.raises(strandline.DatabaseError):
            db.table("books", int, "json")[1] = 1
    with pytest.raises(strandline.DatabaseError, match="closed"):
        db.tables()


def test_a_running_program_can_be_looked_into(tmp_path):
    path = tmp_path / "pool"
    with Database.open(path) as db:
        ages = db.table("ages", str, int)
        before = db.statistics()
        ages["ann"] = 41
        after = db.statistics()
        assert after["commits"] == before["commits"] + 1
        assert after["device"]["log_writes"] > before["device"]["log_writes"]
        db.serve_control()
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(f"{db.path}.control")
            asked.sendall(b'{"get": {"table": "ages", "key": "ann"}}\n')
            answer = [json.loads(line) for line in asked.makefile()]
        assert answer == [{"begin": True}, {"key": "ann", "value": 41}, {"end": True}]
    assert not (tmp_path / "pool.control").exists()


def test_existing_and_new_ones_are_told_apart(tmp_path):
    path = tmp_path / "pool"
    with pytest.raises(strandline.DatabaseError, match="not found"):
        Database.open_existing(path)
    assert list(tmp_path.iterdir()) == []  # a mistake in the path creates nothing
    with Database.create_new(path) as db:
        db.table("numbers", int, int)[1] = 2
    with pytest.raises(strandline.DatabaseError, match="exists"):
        Database.create_new(path)
    with Database.open_existing(path) as db:
        assert db.table("numbers", int, int)[1] == 2


ROWS = {
    bytes: [b"", b"\x00\xff", b"b"],
    str: ["", "a", "ü"],
    int: [-(2**63), -1, 0, 2**63 - 1],
    "u64": [0, 7, 2**64 - 1],
}


@pytest.mark.parametrize("key", ROWS, ids=str)
@pytest.mark.parametrize("value", [*ROWS, "json"], ids=str)
def test_every_pair_of_types(db, key, value):
    values = ROWS.get(value, [None, [1, {"a": "b"}], 0.1, "text"])
    table = db.table("t", key, value)
    for one in ROWS[key]:
        for other in values:
            table[one] = other
            assert table[one] == other and one in table
    assert list(table) == ROWS[key] == list(table.keys())
    assert list(table.items(reverse=True)) == [(one, values[-1]) for one in reversed(ROWS[key])]
    assert len(table) == len(ROWS[key])
    assert table.remove(ROWS[key][0]) == values[-1] and ROWS[key][0] not in table


def test_a_table_is_a_mapping(db):
    ages = db.table("ages", str, int)
    assert ages.insert("ann", 41) is None and ages.insert("ann", 42) == 41
    ages.update({"bob": 29, "cyn": 3})
    ages.update((name, 1) for name in ["dan", "eve"])
    assert list(ages.items("b", "d")) == [("bob", 29), ("cyn", 3)]
    assert list(ages.values("d")) == [1, 1] and list(ages.keys(None, "b")) == ["ann"]
    assert list(ages.keys("b", "e", reverse=True)) == ["dan", "cyn", "bob"]
    assert ages.get("fay") is None and ages.get("fay", 0) == 0
    del ages["ann"]
    for missing in (lambda: ages["ann"], lambda: ages.__delitem__("ann")):
        with pytest.raises(KeyError, match="ann"):
            missing()
    ages.clear()
    assert len(ages) == 0 and db.delete("ages") and not db.delete("ages")
    with pytest.raises(strandline.DatabaseError):
        ages["ann"]


def test_what_is_of_another_type_is_refused(db):
    ages = db.table("ages", str, int)
    for wrong in (lambda: ages.insert(1, 1), lambda: ages.insert("a", "b"), lambda: ages.get(b"a")):
        with pytest.raises(TypeError, match="expected"):
            wrong()
    with pytest.raises(OverflowError):
        ages["a"] = 2**63
    with pytest.raises(OverflowError):
        db.table("counts", str, "u64")["a"] = -1
    with pytest.raises(TypeError):
        db.table("texts", str, "json")["a"] = object()
    with pytest.raises(strandline.UsageError, match="u64"):
        db.table("complex", str, complex)
    with pytest.raises(strandline.UsageError, match="no order"):
        db.table("t", "json", str)
    with pytest.raises(strandline.DatabaseError, match="value: int"):
        db.table("ages", str, bytes)


def test_a_transaction_happens_as_a_whole_or_not_at_all(db):
    accounts = db.table("accounts", str, int)
    with db.write() as tx:
        tx[accounts].update({"ann": 100, "bob": 0})
        with ThreadPoolExecutor(1) as others:
            assert tx[accounts]["ann"] == 100 and not others.submit(accounts.__contains__, "ann").result(), "no other sees it yet"
    with pytest.raises(ZeroDivisionError):
        with db.write() as tx:
            tx[accounts]["ann"] -= 50
            tx[accounts]["bob"] += 50 // 0
    assert dict(accounts.items()) == {"ann": 100, "bob": 0}
    with db.write() as tx:
        mine = tx[accounts]
        mine["ann"] = 0
        tx.roll_back()
    assert accounts["ann"] == 100
    with pytest.raises(strandline.Error, match="over"):
        mine["ann"] = 1
    with db.write() as tx:
        assert list(tx[accounts].items()) == [("ann", 100), ("bob", 0)]
        for name, _ in tx[accounts].items():
            del tx[accounts][name]
    assert len(accounts) == 0


def test_many_rows_in_one_transaction(db):
    squares = db.table("squares", int, int)
    with db.write() as tx:
        mine = tx[squares]
        for n in range(3000):
            mine[n] = n * n
        assert len(mine) == 3000
    assert list(squares.items()) == [(n, n * n) for n in range(3000)]


def test_a_thread_does_not_wait_for_itself(db, tmp_path):
    ages = db.table("ages", str, int)
    with db.write() as tx:
        wrongs = (
            lambda: ages.insert("a", 1),
            lambda: db.write().__enter__(),
            lambda: db.table("other", str, int),
            lambda: db.delete("ages"),
            lambda: list(ages.items()),
            lambda: ages.get("a"),
            lambda: "a" in ages,
            lambda: len(ages),
            lambda: db.backup(tmp_path / "copy"),
            db.tables,
            db.snapshot,
            db.check,
            db.close,
        )
        for rows in (1, 20_000):  # The second makes the transaction a large one.
            for n in range(rows):
                tx[ages][f"row {n}"] = n
            for wrong in wrongs:
                with pytest.raises(strandline.UsageError, match=r"tx\[table\]"):
                    wrong()
        tx[ages]["a"] = 2
    assert ages["a"] == 2


def test_threads_write_one_after_another(db):
    counts = db.table("counts", str, int)
    counts["n"] = 0

    def count():
        for _ in range(50):
            with db.write() as tx:
                tx[counts]["n"] += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert counts["n"] == 200


def test_a_snapshot_stays_as_it_was(db):
    squares = db.table("squares", int, int)
    squares.update((n, n * n) for n in range(1000))
    with db.snapshot() as snapshot:
        old = snapshot[squares]
        squares.clear()
        squares[5000] = 1
        assert len(old) == 1000 and old[7] == 49 and list(old) == list(range(1000))
        with pytest.raises(strandline.DatabaseError):
            old[1] = 1
    with pytest.raises(strandline.UsageError, match="over"):
        snapshot[squares]
    assert list(squares) == [5000]


LARGE = [0, 1, 7, 8, 9, 64, 600, *range(2**19 - 9, 2**19 + 10, 3), 2**20, 4 * 2**20]


@pytest.mark.parametrize("key", [bytes, str, int, "u64"], ids=str)
def test_rows_of_any_size_are_walked_over(db, key):
    """A table has the same rows as a dictionary: few long rows among many short ones, from either end, between bounds, in a snapshot and in a transaction."""
    chance = random.Random(7)
    table = db.table("t", key, bytes)
    make = {bytes: lambda n: n.to_bytes(3, "big"), str: lambda n: "row" * (n % 4) + str(n)}.get(key, lambda n: n)
    sizes = LARGE + [chance.randrange(300) for _ in range(700)]
    chance.shuffle(sizes)
    numbers = chance.sample(range(10000), len(sizes))
    model = {make(number): bytes([number % 251]) * size for number, size in zip(numbers, sizes)}
    table.update(model)
    model = dict(sorted(model.items(), key=lambda row: row[0].encode() if key is str else row[0]))
    keys = list(model)

    def walk(table):
        for start, stop in [(None, None), (100, None), (None, -100), (3, 400), (400, 3)]:
            expected = keys[start:stop]
            between = [None if number is None else keys[number] for number in (start, stop)]
            assert list(table.keys(*between)) == expected
            assert list(table.values(*between)) == [model[key] for key in expected]
            assert list(table.items(*between, reverse=True)) == [(key, model[key]) for key in reversed(expected)]
        assert len(table) == len(model) and list(table) == keys

    walk(table)
    with db.write() as tx:
        walk(tx[table])
    with db.snapshot() as snapshot:
        table.clear()
        walk(snapshot[table])
    assert list(table.items()) == []


def test_iterating_reads_one_state(db):
    squares = db.table("squares", int, int)
    squares.update((n, n) for n in range(1000))
    seen = 0
    for n, _ in squares.items():
        del squares[n]
        squares[n + 5000] = 0
        seen += 1
    assert seen == 1000


def test_a_ticket_is_waited_for(tmp_path):
    with Database.open(tmp_path / "pool") as db:
        log = db.table("log", int, str)

        async def work():
            with db.write(later=True) as tx:
                tx[log][1] = "begun"
            await tx.ticket
            assert tx.ticket.is_durable

        asyncio.run(work())
        with db.write(later=True) as tx:
            tx[log][2] = "ended"
        tx.ticket.wait()
        assert list(log.values()) == ["begun", "ended"]
        with db.write() as tx:
            pass
        with pytest.raises(strandline.UsageError, match="later=True"):
            tx.ticket


def test_it_is_copied_while_it_is_open(db, tmp_path):
    db.table("t", str, str)["a"] = "b"
    db.backup(tmp_path / "copy")
    with Database.open(tmp_path / "copy") as copy:
        assert copy.table("t", str, str)["a"] == "b"
    with pytest.raises(strandline.DatabaseError):
        Database.open(tmp_path)
    with pytest.raises(strandline.UsageError, match="sync"):
        Database.open(tmp_path / "new", domain="magic")


def test_what_is_open_keeps_it_open(tmp_path):
    db = Database.open(tmp_path / "pool")
    snapshot = db.snapshot()
    with pytest.raises(strandline.UsageError, match="snapshots"):
        db.close()
    snapshot.close()
    db.close()
    db.close()


class Slow(io.RawIOBase):
    """A file of bytes that cannot be read again, at most 1,000 at a time. It fails at some position."""

    def __init__(self, whole, fails_at=None):
        self.rest, self.given, self.fails_at = io.BytesIO(whole), 0, fails_at

    def readable(self):
        return True

    def read(self, size=-1):
        if self.fails_at is not None and self.given >= self.fails_at:
            raise ConnectionError("the line is dead")
        read = self.rest.read(min(size, 1000))
        self.given += len(read)
        return read


FILM = bytes(i * i % 251 for i in range(700_003))


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_value_is_a_file(tmp_path, on_disk):
    with Database.open(tmp_path / "pool") if on_disk else Database.in_memory() as db:
        films = db.table("films", str, bytes)
        films.insert_from("tide", io.BytesIO(FILM))
        assert films["tide"] == FILM
        file = io.BytesIO(b"head" + FILM)
        assert file.read(4) == b"head"
        films.insert_from("tide", file, len(FILM) - 10)
        with films.open("tide") as film:
            # The file reads one state, whatever is written meanwhile.
            films["tide"] = b"short"
            assert film.readable() and film.seekable() and not film.writable()
            assert film.read(7) == FILM[:7] and film.tell() == 7
            assert film.seek(-5, io.SEEK_END) == len(FILM) - 15
            assert film.read() == FILM[-15:-10] and film.read() == b""
            film.seek(0)
            assert film.read() == FILM[:-10]
            with pytest.raises(ValueError):
                film.seek(-1)
        with films.open("tide") as film:
            assert film.read() == b"short"
        # For a file that cannot seek, the caller gives the size.
        films.insert_from("ebb", Slow(FILM), len(FILM))
        assert films["ebb"] == FILM
        with pytest.raises(strandline.UsageError, match="give the size"):
            films.insert_from("ebb", Slow(FILM))
        # The file's exceptions are raised, and the value is unchanged.
        with pytest.raises(ConnectionError, match="dead"):
            films.insert_from("ebb", Slow(FILM, 300_000), len(FILM))
        with pytest.raises(strandline.DatabaseError, match="read the value"):
            films.insert_from("ebb", io.BytesIO(b"too short"), 100)
        with pytest.raises(TypeError):
            films.insert_from("ebb", io.StringIO("text"), 4)
        with pytest.raises(KeyError):
            films.open("none")
        with pytest.raises(strandline.UsageError, match="table of bytes"):
            db.table("texts", str, str).open("ebb")
        assert films["ebb"] == FILM
        with db.write() as tx:
            tx[films].insert_from("flood", io.BytesIO(FILM))
            with tx[films].open("flood") as film:
                assert film.read() == FILM
        # The bytes come from a value in the same transaction, and from one in a snapshot.
        with db.write() as tx, tx[films].open("flood") as film:
            tx[films].insert_from("again", film)
        assert films["again"] == FILM
        with db.snapshot() as snapshot, snapshot[films].open("ebb") as film:
            films.insert_from("copy", film)
        assert films["copy"] == FILM
        with pytest.raises(ConnectionError), db.write() as tx:
            tx[films].insert_from("copy", Slow(FILM, 500_000), len(FILM))
        assert films["copy"] == FILM
        assert db.check() == []


def test_a_transaction_that_begins_anew_leaves_files_where_they_are(db):
    meta, data = db.table("meta", int, bytes), db.table("data", int, bytes)
    whole = b"".join(number.to_bytes(8, "big") + FILM[:100_000] for number in range(100))
    file = io.BytesIO(whole)
    with db.write() as tx:
        number = 0
        while header := file.read(8):
            tx[meta][number] = header
            tx[data].insert_from(number, file, 100_000)
            with io.BytesIO(FILM) as closed:
                tx[data].insert_from(1000 + number, closed, 1000)
            number += 1
    assert number == 100 and file.tell() == len(whole)
    assert all(header == at.to_bytes(8, "big") for at, header in meta.items())
    assert all(film == FILM[: 100_000 if at < 1000 else 1000] for at, film in data.items())


def test_a_file_whose_bytes_are_stored_cannot_use_the_database(db, tmp_path):
    films = db.table("films", str, bytes)
    films["tide"] = FILM
    snapshot = db.snapshot()

    class Curious(io.BytesIO):
        def read(self, size=-1):
            self.ask()
            return super().read(size)

    asks = [
        lambda: films["tide"],
        lambda: films.insert("tide", b""),
        lambda: films.open("tide"),
        lambda: db.write().__enter__(),
        lambda: db.snapshot(),
        lambda: db.delete("films"),
        lambda: db.backup(tmp_path / "copy"),
        lambda: db.close(),
    ]
    for ask in asks:
        file = Curious(FILM)
        file.ask = ask
        with pytest.raises(strandline.UsageError, match="except an existing snapshot"):
            films.insert_from("ebb", file)
    file = Curious(FILM)
    file.ask = lambda: snapshot[films]["tide"]
    films.insert_from("ebb", file)
    assert films["ebb"] == FILM
    snapshot.close()


def test_options_bound_a_database_and_tell_it_from_others(tmp_path):
    path = tmp_path / "pool"
    with pytest.raises(strandline.UsageError, match="4096"):
        Database.create_new(path, size=4097)
    with Database.create_new(path, size=16 << 20, layout_name="shop") as db:
        assert db.usage()["replayed"] == 0
    for open_other in (Database.open, Database.open_existing):
        with pytest.raises(strandline.DatabaseError) as refused:
            open_other(path)
        assert refused.value.kind == "wrong-layout"
    with Database.open_existing(path, layout_name="shop") as db:
        assert db.check() == []
    with pytest.raises(strandline.DatabaseError) as missing:
        Database.restore(tmp_path / "none", path)
    assert missing.value.kind == "io"
