"""Python's sqlite3 module on the extension, whose path is the argument: threads, rollbacks, large values, other processes."""
import sqlite3
import subprocess
import sys
import threading

OPEN = "file:shop.db?vfs=strandline"


def load():
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(sys.argv[1])
    loader.close()


def connect(name=OPEN):
    return sqlite3.connect(name, uri=True, timeout=60)


load()
load()  # Nothing new.
db = connect()
db.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)")
with db:
    db.executemany("INSERT INTO account VALUES (?, 1000)", [(i,) for i in range(20)])


def move(number):
    mine = connect()
    for i in range(40):
        with mine:
            mine.execute("BEGIN IMMEDIATE")
            mine.execute("UPDATE account SET cents = cents - ? WHERE id = ?", (i, (number + i) % 20))
            mine.execute("UPDATE account SET cents = cents + ? WHERE id = ?", (i, (number * 7 + i * 3) % 20))
    mine.close()


threads = [threading.Thread(target=move, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    assert db.execute("SELECT sum(cents) FROM account").fetchone() == (20000,)
for thread in threads:
    thread.join()
assert db.execute("SELECT sum(cents) FROM account").fetchone() == (20000,)

# An error takes all of a transaction back.
try:
    with db:
        db.execute("DELETE FROM account")
        db.execute("INSERT INTO account VALUES (1, 1), (1, 1)")
except sqlite3.IntegrityError:
    pass
assert db.execute("SELECT count(*) FROM account").fetchone() == (20,)

large = bytes(range(256)) * 40000
with db:
    db.execute("CREATE TABLE file (bytes BLOB)")
    db.execute("INSERT INTO file VALUES (?)", (large,))
assert db.execute("SELECT bytes FROM file").fetchone() == (large,)

# Another process has to wait until this one has closed the database, as long as its timeout says.
other = "import sqlite3, sys; sys.argv[1:] = [%r]\n" % sys.argv[1]
other += "c = sqlite3.connect(':memory:'); c.enable_load_extension(True); c.load_extension(sys.argv[1])\n"
other += "d = sqlite3.connect(%r, uri=True, timeout=TIMEOUT); print('open', flush=True)\n" % OPEN
other += "print(d.execute('SELECT count(*) FROM account').fetchone()[0])\n"
at_once, patient = other.replace("TIMEOUT", "0"), other.replace("TIMEOUT", "60")
ran = subprocess.run([sys.executable, "-c", at_once], capture_output=True, text=True)
assert ran.returncode != 0 and "locked" in ran.stderr, ran
waiting = subprocess.Popen([sys.executable, "-c", patient], stdout=subprocess.PIPE, text=True)
assert waiting.stdout.readline() == "open\n"
db.close()
assert waiting.communicate()[0] == "20\n" and waiting.returncode == 0

# Readers only, as many as there are.
readers = [connect(OPEN + "&mode=ro") for _ in range(2)]
for reader in readers:
    assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
reader = at_once.replace("strandline'", "strandline&mode=ro'")
ran = subprocess.run([sys.executable, "-c", reader], capture_output=True, text=True)
assert ran.stdout == "open\n20\n", ran
try:
    readers[0].execute("DELETE FROM account")
    raise AssertionError("a reader has written")
except sqlite3.OperationalError as error:
    assert "readonly" in str(error), error
# Python has begun a transaction for it.
readers[0].rollback()

# One that writes comes to them, as soon as none reads.
reading = readers[1].execute("SELECT * FROM account")
reading.fetchone()
try:
    sqlite3.connect(OPEN, uri=True, timeout=0).execute("SELECT * FROM account")
    raise AssertionError("opened to be written while it is read")
except sqlite3.OperationalError as error:
    assert "locked" in str(error), error
reading.close()
count = readers[0].execute("SELECT count(*) FROM account").fetchone()[0]
with connect(OPEN) as writer:
    writer.execute("DELETE FROM account WHERE rowid IN (SELECT rowid FROM account LIMIT 1)")
assert readers[1].execute("SELECT count(*) FROM account").fetchone()[0] == count - 1
print("all is well")
