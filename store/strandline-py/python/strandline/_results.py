"""Results: dictionaries and lists with the command's keys, and frames of them."""


def _number(value):
    """A swept value as a number, where it is one."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                pass
    return value


def _frame(rows, library):
    if library == "pandas":
        import pandas

        return pandas.DataFrame(rows)
    import polars

    return polars.DataFrame(rows, infer_schema_length=None)


def _flat(row, before=""):
    """A row without dictionaries: their keys are joined by dots."""
    cells = {}
    for name, value in row.items():
        if isinstance(value, dict):
            cells.update(_flat(value, f"{before}{name}."))
        else:
            cells[before + name] = value
    return cells


class _Frames:
    def _rows(self):
        raise NotImplementedError

    def __repr__(self):
        return f"<{type(self).__name__}: {len(self)} {self._what}{'' if len(self) == 1 else 's'}>"

    # A result is printed as a whole by json.dumps, and as a table by to_pandas.
    __str__ = __repr__

    def to_pandas(self):
        """A ``pandas.DataFrame``; needs pandas."""
        return _frame(self._rows(), "pandas")

    def to_polars(self):
        """A ``polars.DataFrame``; needs polars."""
        return _frame(self._rows(), "polars")


class Result(_Frames, dict):
    """What one run found: the dictionary that ``strandline-lab simulate --json`` prints. As a frame it is one row."""

    _what = "key"

    def __init__(self, found):
        self.cells = dict(found.pop("cells", []))
        super().__init__(found)

    def _rows(self):
        return [self.cells or _flat({k: v for k, v in self["result"].items() if not isinstance(v, (dict, list))})]


class Rows(_Frames, list):
    """Rows with the command's keys. As a frame each is a row, and what is inside a dictionary has a column of its own."""

    _what = "row"

    def _rows(self):
        return [_flat(row) for row in self]


class Checked(Rows):
    """What ``check`` found: a dictionary for each case."""

    @property
    def violations(self):
        """The rows in which recovery did not repair a state; with ``mutants`` those that were found out."""
        return Rows(row for row in self if row["violation"] is not None)


class Litmus(Rows):
    """What ``litmus`` found: a dictionary for each test and setting. As a frame each question is a row."""

    def _rows(self):
        return [
            {"name": row["name"], "setting": row["setting"], "states": row["states"], **ask}
            for row in self
            for ask in row["asks"]
        ]


class Sweep(_Frames, list):
    """What a sweep found, in the order of its points: dictionaries with ``keys``, ``result`` and ``notes``.

    As a frame it has a row for each run, with the columns of ``points.csv`` of one seed. ``folder`` is where the files are, if they were kept.
    """

    _what = "run"

    def __init__(self, found, folder=None):
        self._cells = [dict(row.pop("cells")) for row in found["rows"]]
        super().__init__(found["rows"])
        self.missing = found["missing"]
        self.folder = folder

    def _rows(self):
        return [{name: _number(value) for name, value in cells.items()} for cells in self._cells]
