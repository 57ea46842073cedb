"""Values that are read piece by piece."""

import io

_PIECE = 1 << 20


class _Value(io.RawIOBase):
    """A value of a table, in one state of the database."""

    def __init__(self, table, key):
        self._table, self._key = table, key
        self._at, self._size = 0, table._size(key)

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at < 0:
            raise ValueError(f"a place before the value: {at}")
        self._at = at
        return at

    def tell(self):
        return self._at

    def readinto(self, buffer):
        if self.closed:
            raise ValueError("the value is closed")
        view = memoryview(buffer).cast("B")
        read = self._table._read_at(self._key, self._at, len(view))
        view[: len(read)] = read
        self._at += len(read)
        return len(read)

    def readall(self):
        pieces = []
        while piece := self.read(_PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def close(self):
        # This ends the snapshot that belongs to the table.
        self._table = None
        super().close()


def opened(table, key):
    return io.BufferedReader(_Value(table, key), _PIECE)


def write_to(table, key, file, is_lent):
    """Writes a value to a file, piece by piece, and returns the number of its bytes."""
    written = 0
    for piece in table.pieces(key) if is_lent else _copied(table, key):
        written += len(piece)
        while len(piece) > 0:
            count = file.write(piece)
            if count is None:
                if isinstance(file, io.RawIOBase):
                    raise BlockingIOError("the file takes no more bytes now")
                break
            piece = piece[count:]
    return written


def _copied(table, key):
    for at in range(0, table._size(key), _PIECE):
        yield memoryview(table._read_at(key, at, _PIECE))
