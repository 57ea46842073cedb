"""Converts tables of a database to frames."""

import itertools

_BATCH = 1 << 14


class _Columns:
    """The columns of one side of a table, keys or values."""

    def __init__(self, name, kind):
        self._tag, rest = kind
        self._is_one = False
        if self._tag == "tuple":
            self.names, self._kinds = [f"{name}_{at}" for at in range(len(rest))], rest
        elif self._tag == "dataclass":
            fields = rest[3]
            self.names, self._kinds = [field[0] for field in fields], [field[1] for field in fields]
        else:
            self.names, self._kinds, self._is_one = [name], [kind], True

    def fill(self, values):
        """Returns a list of values for each column."""
        if self._is_one:
            columns = [values]
        elif self._tag == "dataclass":
            columns = [[getattr(value, name) for value in values] for name in self.names]
        else:
            columns = [[value[at] for value in values] for at in range(len(self.names))]
        plain = [_plain(kind) for kind in self._kinds]
        return [column if as_plain is None else [as_plain(one) for one in column] for as_plain, column in zip(plain, columns)]

    def types(self, pyarrow):
        return [_type(pyarrow, kind) for kind in self._kinds]


def _plain(kind):
    """Returns a function that converts a value for pyarrow, or None if pyarrow takes the value itself."""
    tag, rest = kind
    if tag == "uuid":
        return str
    if tag == "enum":
        return lambda value: value.name
    if tag == "optional":
        inside = _plain(rest[0])
        return inside and (lambda value: None if value is None else inside(value))
    if tag == "list":
        inside = _plain(rest[0])
        return inside and (lambda value: [inside(one) for one in value])
    if tag == "tuple":
        parts = [(str(at), _plain(part) or _same) for at, part in enumerate(rest)]
        return lambda value: {name: inside(one) for (name, inside), one in zip(parts, value)}
    if tag == "dataclass":
        fields = [(name, _plain(part) or _same) for name, part, _ in rest[3]]
        return lambda value: {name: inside(getattr(value, name)) for name, inside in fields}
    return None


def _same(value):
    return value


def _type(pyarrow, kind):
    """Returns the Arrow type of a kind, or None if the values determine it."""
    tag, rest = kind
    if tag == "int":
        return getattr(pyarrow, f"{'' if rest[1] else 'u'}int{rest[0]}")()
    if tag == "optional":
        return _type(pyarrow, rest[0])
    if tag == "json":
        return None
    if tag == "list":
        inside = _type(pyarrow, rest[0])
        return inside and pyarrow.list_(inside)
    if tag in ("tuple", "dataclass"):
        parts = enumerate(rest) if tag == "tuple" else ((name, part) for name, part, _ in rest[3])
        parts = [(str(name), _type(pyarrow, part)) for name, part in parts]
        return None if any(part is None for _, part in parts) else pyarrow.struct(parts)
    return {
        "bytes": pyarrow.large_binary(),
        "str": pyarrow.string(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "date": pyarrow.date32(),
        "datetime": pyarrow.timestamp("us"),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
        "uuid": pyarrow.string(),
        "enum": pyarrow.string(),
    }[tag]


def _rows(table, start, stop):
    with table.items(start, stop) as items:
        while rows := list(itertools.islice(items, _BATCH)):
            yield [key for key, _ in rows], [value for _, value in rows]


def to_arrow(table, start, stop):
    import pyarrow  # type: ignore

    of_key, of_value = table._kinds
    keys, values = _Columns("key", of_key), _Columns("value", of_value)
    if of_value[0] == "json":
        return _with_json(pyarrow, table, keys, start, stop)
    names, types = _distinct(keys.names, values.names), keys.types(pyarrow) + values.types(pyarrow)
    chunks = [[] for _ in names]
    for some_keys, some_values in _rows(table, start, stop):
        for chunk, column, kind in zip(chunks, keys.fill(some_keys) + values.fill(some_values), types):
            chunk.append(pyarrow.array(column, type=kind))
    # If the values determine the type, other batches may have a less specific type.
    arrays = [
        pyarrow.chunked_array(chunk, type=kind)
        if kind
        else pyarrow.chunked_array([pyarrow.array([one for part in chunk for one in part.to_pylist()])])
        for chunk, kind in zip(chunks, types)
    ]
    return pyarrow.table(arrays, names=names)


def _with_json(pyarrow, table, keys, start, stop):
    """Returns a table of JSON values. Dictionaries have a column for each key, in the order of the keys' first occurrence."""
    columns, found = [[] for _ in keys.names], []
    for some_keys, some_values in _rows(table, start, stop):
        for column, more in zip(columns, keys.fill(some_keys)):
            column.extend(more)
        found.extend(some_values)
    arrays = [pyarrow.array(column, type=kind) for column, kind in zip(columns, keys.types(pyarrow))]
    if found and all(isinstance(one, dict) for one in found):
        names = list(dict.fromkeys(name for one in found for name in one))
        arrays += [pyarrow.array([one.get(name) for one in found]) for name in names]
    else:
        names = ["value"]
        arrays.append(pyarrow.array(found))
    return pyarrow.table(arrays, names=_distinct(keys.names, names))


def _distinct(keys, values):
    """Returns the names of columns. A field with the name of a key's column gets the prefix `value.`."""
    return keys + [f"value.{name}" if name in keys else name for name in values]


def to_pandas(table, start, stop):
    import pandas

    of_key, of_value = table._kinds
    keys, values = _Columns("key", of_key), _Columns("value", of_value)
    columns, found = [[] for _ in keys.names], []
    for some_keys, some_values in _rows(table, start, stop):
        for column, more in zip(columns, keys.fill(some_keys)):
            column.extend(more)
        found.extend(some_values)
    if of_value[0] == "json" and found and all(isinstance(one, dict) for one in found):
        names = list(dict.fromkeys(name for one in found for name in one))
        filled = [[one.get(name) for one in found] for name in names]
    else:
        names, filled = values.names, values.fill(found)
    names = _distinct(keys.names, names)
    return pandas.DataFrame(dict(zip(names, columns + filled)), columns=names)
