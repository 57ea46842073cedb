"""Exceptions."""


class Error(Exception):
    """An error of Strandline. All others are subclasses of it."""


class UsageError(Error, ValueError):
    """A parameter is wrong: a name, a number or a combination is impossible. Other parameters would work."""


class DamagedError(Error):
    """A file is damaged."""


class DatabaseError(Error):
    """A database could not be opened, read or written.

    ``kind`` is the reason: ``"full"``, ``"locked"``, ``"io"``, ``"wrong-layout"``, ``"damaged"``, ``"closed"``, and so on.
    """

    kind = "other"


class PointError(Error):
    """A point of a sweep cannot be run on any machine."""


class Stopped(Error):
    """A run was ended from outside."""


class SweepError(Error):
    """Some points of a sweep were not run. The results of the others are kept.

    ``result`` has these results, and ``failed`` maps the index of each point that was not run to the reason.
    """

    def __init__(self, message, result=None, failed=None):
        super().__init__(message)
        self.result = result
        self.failed = failed or {}
