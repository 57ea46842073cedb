"""Types of keys and values: converts the types that a program writes to tuples that the extension module reads."""

import dataclasses
import datetime
import enum
import types
import typing
import uuid

from ._errors import UsageError

_CLASSES = {
    bytes: ("bytes",),
    str: ("str",),
    int: ("int", 64, True),
    float: ("float",),
    bool: ("bool",),
    datetime.date: ("date",),
    datetime.datetime: ("datetime",),
    uuid.UUID: ("uuid",),
    dict: ("json",),
}
_NAMES = {
    "bytes": ("bytes",),
    "str": ("str",),
    "int": ("int", 64, True),
    "float": ("float",),
    "bool": ("bool",),
    "json": ("json",),
    "timestamp": ("timestamp",),
    **{f"{sign}{bits}": ("int", bits, sign == "i") for sign in "iu" for bits in (8, 16, 32, 64)},
}
_CHOICES = (
    "bytes, str, int, float, bool, date, datetime, UUID, tuple[…], list[…], Optional[…], dict, a data class, an enumeration, "
    '"u64" or another size of integers, "timestamp" or "json"'
)


class _Reader:
    """Reads types, and remembers the classes that it has met."""

    def __init__(self):
        self._classes = {}
        self._open = []

    def kind(self, of):
        if isinstance(of, str):
            if of in _NAMES:
                return _made(_NAMES[of])
        elif isinstance(of, type) and not typing.get_args(of):
            if of in _CLASSES:
                return _made(_CLASSES[of])
            if dataclasses.is_dataclass(of):
                return self._dataclass(of)
            if issubclass(of, enum.Enum):
                return self._enumeration(of)
        return self._parametrised(of)

    def _parametrised(self, of):
        origin, arguments = typing.get_origin(of), typing.get_args(of)
        if origin is typing.Annotated:
            # Annotated[int, "u64"]
            return self.kind(next((one for one in arguments[1:] if isinstance(one, str)), arguments[0]))
        if origin is dict:
            return _made(("json",))
        if origin is list and len(arguments) == 1:
            return ("list", (self.kind(arguments[0]),))
        if origin is tuple and arguments and Ellipsis not in arguments:
            return ("tuple", tuple(self.kind(one) for one in arguments))
        if origin in (typing.Union, types.UnionType):
            others = [one for one in arguments if one is not type(None)]
            if len(others) == 1 and len(arguments) == 2:
                return ("optional", (self.kind(others[0]),))
        raise UsageError(f"a table cannot hold {_name(of)}: choose {_CHOICES}")

    def _know(self, of):
        if self._classes.setdefault(of.__name__, of) is not of:
            raise UsageError(f"two classes are named {of.__name__}: rename one of them")

    def _dataclass(self, of):
        if of in self._open:
            raise UsageError(f"{of.__name__} holds itself, which a table cannot: store the key of another row instead")
        self._know(of)
        self._open.append(of)
        try:
            hints = typing.get_type_hints(of, include_extras=True)
        except Exception as error:
            raise UsageError(f"the types of {of.__name__} cannot be read: {error}") from error
        fields = []
        for field in dataclasses.fields(of):
            if not field.init:
                raise UsageError(f"{of.__name__}.{field.name} is not a parameter of the class, so that it cannot be read back")
            try:
                kind = self.kind(hints[field.name])
            except UsageError as error:
                raise UsageError(f"{of.__name__}.{field.name}: {error}") from None
            default = None
            if field.default is not dataclasses.MISSING:
                default = (field.default,)
            elif field.default_factory is not dataclasses.MISSING:
                default = (field.default_factory(),)
            fields.append((field.name, kind, default, field.metadata.get("was")))
        self._open.pop()
        return ("dataclass", (of, of.__name__, _version(of), fields))

    def _enumeration(self, of):
        if issubclass(of, enum.Flag):
            raise UsageError(f"{of.__name__} has combinations of flags: choose int, and store their values")
        self._know(of)
        return ("enum", (of, of.__name__, _version(of), [member.name for member in of]))


def _made(kind):
    return (kind[0], kind[1:])


def _version(of):
    # Only the class's own version counts: a subclass does not inherit it.
    return vars(of).get("__strandline_version__", 1)


def _name(of):
    return of.__qualname__ if isinstance(of, type) and not typing.get_args(of) else repr(of)


def kinds(key, value):
    """Returns the kinds of a table's keys and values."""
    reader = _Reader()
    return reader.kind(key), reader.kind(value)
