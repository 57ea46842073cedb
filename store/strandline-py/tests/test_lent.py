"""Values that are read in place."""

import gc
import io
import threading

import pytest

import strandline
from strandline import Database

FILM = bytes(i * i % 251 for i in range(700_003))


@pytest.fixture
def db(tmp_path):
    with Database.open(tmp_path / "pool") as db:
        yield db


def test_pieces_are_a_value(db):
    films = db.table("films", str, bytes)
    sizes = [0, 1, 16 << 10, (16 << 10) + 1, 252 << 10, (252 << 10) + 1, len(FILM)]
    for size in sizes:
        films[str(size)] = FILM[:size]
    for size in sizes:
        pieces = films.pieces(str(size))
        assert b"".join(pieces) == FILM[:size] and all(piece.readonly for piece in pieces)
        assert all(len(piece) <= 252 << 10 for piece in pieces)
    assert films.pieces("0") == []
    with db.snapshot() as then:
        films["1"] = b"other"
        assert b"".join(then[films].pieces("1")) == FILM[:1]
        with pytest.raises(KeyError, match="none"):
            then[films].pieces("none")
    with pytest.raises(TypeError):
        pieces[0][0] = 1
    with db.write() as tx, pytest.raises(strandline.UsageError, match="cannot be lent inside a transaction"):
        tx[films].pieces("1")
    with pytest.raises(strandline.UsageError, match="table of bytes"):
        db.table("names", int, str).pieces(1)


def test_what_is_kept_stays_as_it_was(db):
    """Views outlive the snapshot, the table and the value; the database stays open for them."""
    films = db.table("films", int, bytes)
    for key in range(4):
        films[key] = bytes([key]) * 600_000
    with db.snapshot() as then:
        kept = {key: then[films].pieces(key) for key in range(4)}
    del then
    for number in range(100, 140):
        for key in range(3):
            films[key] = bytes([number]) * 600_000
        films.remove(3)
        # Any thread can read them meanwhile.
        reader = threading.Thread(target=lambda: [piece[-1] for pieces in kept.values() for piece in pieces])
        reader.start()
        reader.join()
    for key, pieces in kept.items():
        assert b"".join(pieces) == bytes([key]) * 600_000
    part = kept[2][1][1000:2000]
    del kept, pieces
    gc.collect()
    with pytest.raises(strandline.UsageError, match="memory views"):
        db.close()
    assert part == bytes([2]) * 1000 and db.table("films", int, bytes)[0] == bytes([139]) * 600_000
    part.release()
    db.close()


def test_an_array_keeps_its_bytes(db):
    numpy = pytest.importorskip("numpy", reason="needs numpy")
    readings = db.table("readings", int, bytes)
    readings[1] = numpy.arange(25_000, dtype="<f8").tobytes()
    pieces = readings.pieces(1)
    array = numpy.frombuffer(pieces[0], dtype="<f8")
    del pieces
    for number in range(40):
        readings[1] = bytes([number]) * 200_000
    gc.collect()
    assert (array == numpy.arange(25_000)[: len(array)]).all() and not array.flags.writeable
    with pytest.raises(strandline.UsageError):
        db.close()
    del array
    db.close()


class Slow(io.RawIOBase):
    """A file that takes at most 1,000 bytes at a time."""

    def __init__(self):
        self.taken = b""

    def writable(self):
        return True

    def write(self, piece):
        self.taken += bytes(piece[:1000])
        return min(len(piece), 1000)


class Full(io.RawIOBase):
    def write(self, piece):
        raise OSError("no space left")


class Silent:
    def __init__(self):
        self.pieces = []

    def write(self, piece):
        self.pieces.append(bytes(piece))


def test_a_value_is_written_to_a_file(db, tmp_path):
    films = db.table("films", str, bytes)
    films["tide"] = FILM
    films["none"] = b""
    with open(tmp_path / "tide", "wb") as file:
        assert films.write_to("tide", file) == len(FILM)
    assert (tmp_path / "tide").read_bytes() == FILM
    slow, silent = Slow(), Silent()
    with db.snapshot() as then:
        assert then[films].write_to("tide", slow) == len(FILM) and slow.taken == FILM
        assert then[films].write_to("tide", silent) == len(FILM)
    assert b"".join(silent.pieces) == FILM and len(silent.pieces) > 1
    with db.write() as tx:
        tx[films]["tide"] = FILM[::-1]
        out = io.BytesIO()
        assert tx[films].write_to("tide", out) == len(FILM) and out.getvalue() == FILM[::-1]
        assert tx[films].write_to("none", out) == 0
    with pytest.raises(OSError, match="no space"):
        films.write_to("tide", Full())
    with pytest.raises(KeyError):
        films.write_to("ebb", io.BytesIO())


def test_a_database_in_memory_and_one_that_is_read_have_pieces_too(tmp_path):
    with Database.in_memory() as db:
        films = db.table("films", int, bytes)
        films[1] = FILM
        assert b"".join(films.pieces(1)) == FILM
    with Database.open(tmp_path / "pool") as db:
        db.table("films", int, bytes)[1] = FILM
    with Database.open(tmp_path / "pool", read_only=True) as db:
        films = db.table("films", int, bytes)
        assert b"".join(films.pieces(1)) == FILM and list(films) == [1]
        with db.snapshot() as then:
            assert then[films].write_to(1, io.BytesIO()) == len(FILM)


def test_keys_and_values_have_their_limits(db):
    """A key has at most 4,096 encoded bytes. A text takes its bytes and two more."""
    names = db.table("names", str, str)
    names["k" * 4094] = "there"
    assert names["k" * 4094] == "there"
    with pytest.raises(strandline.UsageError, match="4097 encoded bytes .* at most 4096"):
        names["k" * 4095] = "not there"
    places = db.table("places", tuple[bytes, int], int)
    places[b"k" * 4086, 1] = 1
    with pytest.raises(strandline.UsageError, match="4097 encoded bytes"):
        places[b"k" * 4087, 1] = 1
    # A zero takes two bytes.
    zeros = db.table("zeros", bytes, int)
    zeros[bytes(2047)] = 1
    with pytest.raises(strandline.UsageError, match="4098 encoded bytes"):
        zeros[bytes(2048)] = 1
    with db.write() as tx:
        tx[names]["other"] = "there"
        with pytest.raises(strandline.UsageError, match="at most 4096"):
            tx[names]["k" * 4095] = "not there"
        tx.roll_back()
    assert list(names) == ["k" * 4094] and len(places) == len(zeros) == 1
    assert "k" * 5000 not in names and names.get("k" * 5000) is None


class Endless(io.RawIOBase):
    """A file of so many zeros that they do not fit into memory."""

    def readable(self):
        return True

    def read(self, size=-1):
        return bytes(size)


def test_a_value_has_at_most_4_gib(db):
    films = db.table("films", int, bytes)
    with pytest.raises(strandline.UsageError, match="a value of 4294967296 bytes: .* less than 2.32"):
        films.insert_from(1, Endless(), 1 << 32)
    assert 1 not in films
