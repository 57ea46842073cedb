"""Signals while a call waits, and transactions that the program does not end."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import strandline
from strandline import Database

# A signal is handled between two instructions, or during the wait. There are few instructions between the call and the wait. Each signal is sent after
# the previous one was handled, so that one of this number of signals is handled during the wait.
SIGNALS = 12
# The longest that a failing test waits.
LONG = 60


@pytest.fixture
def db(tmp_path):
    db = Database.open(tmp_path / "pool")
    yield db
    db.close()


class Holder:
    """A transaction in another thread, which ends on command."""

    def __init__(self, db, rows):
        self.begun, self.end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, args=(db, rows))
        self.thread.start()
        assert self.begun.wait(LONG)

    def run(self, db, rows):
        table = db.table("held", int, bytes)
        with db.write(later=True) as tx:
            tx[table].update((n, b"x" * 100) for n in range(rows))
            self.begun.set()
            self.end.wait(LONG)
        self.ticket = tx.ticket

    def stop(self):
        self.end.set()
        self.thread.join()


def interrupted(call):
    """Returns whether a signal's exception ends `call`, which must not end before."""
    handled, done = threading.Semaphore(0), threading.Event()
    count = 0

    def handle(number, frame):
        nonlocal count
        count += 1
        handled.release()
        if count == SIGNALS:
            raise KeyboardInterrupt

    def send():
        for _ in range(SIGNALS):
            os.kill(os.getpid(), signal.SIGINT)
            if done.is_set() or not handled.acquire(timeout=LONG):
                return

    before = signal.signal(signal.SIGINT, handle)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        call()
    except KeyboardInterrupt:
        return True
    finally:
        done.set()
        sender.join()
        signal.signal(signal.SIGINT, before)
    return False


def enter(db):
    tx = db.write()
    tx.__enter__()


WRITES = {
    "write": lambda db, table: enter(db),
    "insert": lambda db, table: table.insert(1, b"mine"),
    "remove": lambda db, table: table.remove(1),
    "update": lambda db, table: table.update({1: b"mine"}),
    "clear": lambda db, table: table.clear(),
    "table": lambda db, table: db.table("new", int, int),
    "delete": lambda db, table: db.delete("held"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_signal_ends_the_wait_for_another_writer(db, name):
    table = db.table("mine", int, bytes)
    table[1] = b"before"
    holder = Holder(db, 1)
    try:
        assert interrupted(lambda: WRITES[name](db, table))
        assert holder.thread.is_alive(), "it has not waited for its end"
        assert table[1] == b"before" and len(db.tables()) == 2
    finally:
        holder.stop()
    with db.write() as tx:
        tx[table][1] = b"after"
    assert table[1] == b"after" and len(db.table("held", int, bytes)) == 1



def is_before(value):
    assert value == b"before"


READS = {
    "get": lambda db, table: is_before(table.get(1)),
    "contains": lambda db, table: is_before(table[1] if 1 in table else None),
    "items": lambda db, table: is_before(dict(table.items())[1]),
    "tables": lambda db, table: db.tables(),
    "table": lambda db, table: is_before(db.table("mine", int, bytes)[1]),
    "open": lambda db, table: is_before(table.open(1).read()),
    "snapshot": lambda db, table: is_before(db.snapshot()[table][1]),
    "check": lambda db, table: db.check(),
}


@pytest.mark.parametrize("name", READS)
def test_reading_does_not_wait_for_a_large_transaction(db, name):
    table = db.table("mine", int, bytes)
    table[1] = b"before"
    holder = Holder(db, 100_000)
    try:
        READS[name](db, table)
        assert holder.thread.is_alive(), "it has not waited for its end"
    finally:
        holder.stop()
    assert len(db.table("held", int, bytes)) == 100_000


def test_a_signal_ends_the_wait_for_a_large_transaction(db, tmp_path):
    table = db.table("mine", int, bytes)
    table[1] = b"before"
    holder = Holder(db, 100_000)
    try:
        assert interrupted(lambda: db.backup(tmp_path / "copy"))
        assert holder.thread.is_alive(), "it has not waited for its end"
    finally:
        holder.stop()
    assert table[1] == b"before" and len(db.table("held", int, bytes)) == 100_000
    table[1] = b"after"
    db.close()  # This waits for the operation that the call had begun.


def test_a_transaction_that_is_dropped_is_rolled_back(db):
    table = db.table("t", int, int)

    def begin():
        tx = db.write().__enter__()
        tx[table][1] = 1
        return tx[table]

    kept = begin()  # The table outlives the transaction.
    gc.collect()
    table[2] = 2
    assert dict(table.items()) == {2: 2}
    with pytest.raises(strandline.Error, match="over"):
        kept[3] = 3
    begin()
    db.close()


def test_a_transaction_in_a_cycle_is_rolled_back(db):
    table = db.table("t", int, int)

    class Owner:
        pass

    owner = Owner()
    owner.me, owner.tx = owner, db.write().__enter__()
    owner.tx[table][1] = 1
    del owner
    gc.collect()
    with db.write() as tx:
        tx[table][2] = 2
    assert dict(table.items()) == {2: 2}


def test_a_transaction_ends_with_its_thread(db):
    table = db.table("t", int, int)

    def begin():
        tx = db.write().__enter__()
        tx[table][1] = 1

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    table[2] = 2
    assert dict(table.items()) == {2: 2}


def test_another_thread_ends_a_transaction(db):
    table = db.table("t", int, int)
    begun = []
    thread = threading.Thread(target=lambda: begun.append(db.write().__enter__()))
    thread.start()
    thread.join()
    begun[0][table][1] = 1
    begun[0].__exit__(None, None, None)
    table[2] = 2
    assert dict(table.items()) == {1: 1, 2: 2}


def test_a_thread_that_waits_is_not_in_a_transaction(db):
    """A thread in the block of its own transaction gets an error, even while another thread waits for that transaction."""
    table = db.table("t", int, int)
    entered = threading.Event()

    def write():
        entered.set()
        with db.write() as tx:
            tx[table][2] = 2

    with db.write() as tx:
        waiting = threading.Thread(target=write)
        waiting.start()
        assert entered.wait(LONG)
        tx[table][1] = 1
        with pytest.raises(strandline.UsageError, match=r"tx\[table\]"):
            table[3] = 3
    waiting.join()
    assert dict(table.items()) == {1: 1, 2: 2}


def run(script, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG)


def test_a_program_ends_within_a_transaction(tmp_path):
    script = """
        import sys, threading
        from strandline import Database

        db = Database.open(sys.argv[1])
        table = db.table("t", int, int)
        table[1] = 1
        tx = db.write().__enter__()
        tx[table][2] = 2
        waiting = threading.Thread(target=lambda: table.insert(3, 3), daemon=True)
        waiting.start()
        print("the end")
    """
    ran = run(script, tmp_path / "pool")
    assert (ran.returncode, ran.stdout) == (0, "the end\n"), ran
    with Database.open(tmp_path / "pool") as db:
        assert dict(db.table("t", int, int).items()) == {1: 1} and db.check() == []


def test_standard_descriptors_may_be_closed(tmp_path):
    """A program's writes to the standard descriptors must not reach a file of the database."""
    script = """
        import os, sys
        from strandline import Database

        for descriptor in range(3):
            os.close(descriptor)
        for n in range(2):
            with Database.open(sys.argv[1]) as db:
                db.table("t", int, int)[n] = n
                for descriptor in range(3):
                    try:
                        os.write(descriptor, b"message" * 10000)
                    except OSError:
                        pass  # Whether it goes anywhere does not matter.
                assert db.check() == []
        os._exit(7)
    """
    assert run(script, tmp_path / "pool").returncode == 7
    with Database.open(tmp_path / "pool") as db:
        assert dict(db.table("t", int, int).items()) == {0: 0, 1: 1}


def test_memory_and_address_space_are_bounded(tmp_path):
    path = tmp_path / "pool"
    with Database.open(path, address_space=64 << 20, memory=16 << 20) as db:
        table = db.table("t", int, bytes)
        table[1] = b"x" * 1000
        with pytest.raises(strandline.DatabaseError):  # The file cannot grow further.
            table[2] = bytes(80 << 20)
        assert dict(table.items()) == {1: b"x" * 1000}
    with Database.open(path, read_only=True, address_space=64 << 20, memory=16 << 20) as db:
        assert list(db.table("t", int, bytes)) == [1]
    for wrong, name in ((dict(address_space=4095), "address_space"), (dict(memory=1), "memory")):
        with pytest.raises(strandline.UsageError, match=name):
            Database.open(path, **wrong)
    for option in ("address_space", "memory"):
        with pytest.raises(OverflowError):
            Database.open(path, **{option: -1})
