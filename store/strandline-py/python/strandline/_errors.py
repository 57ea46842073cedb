"""Exceptions."""


class Error(Exception):
    """Strandline could not do what was asked. All others are of this class."""


class UsageError(Error, ValueError):
    """Other parameters would do: a name, a number or a combination is impossible."""


class DamagedError(Error):
    """A file is damaged."""


class DatabaseError(Error):
    """A database could not be opened, read or written.

    ``kind`` says why: ``"full"``, ``"locked"``, ``"io"``, ``"wrong-layout"``, ``"damaged"``, ``"closed"``, and so on.
    """

    kind = "other"


class PointError(Error):
    """A point of a sweep cannot be run, wherever it is tried."""


class Stopped(Error):
    """A run was ended from outside."""


class SweepError(Error):
    """Some points of a sweep were not run. Those that were are kept.

    ``result`` has them, and ``failed`` maps the place of each other point to the reason.
    """

    def __init__(self, message, result=None, failed=None):
        super().__init__(message)
        self.result = result
        self.failed = failed or {}
