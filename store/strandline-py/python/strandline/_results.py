"""Results: dictionaries and lists with the command's keys, and frames of them."""


def _number(value):
    """Returns a swept value as a number, if it is one."""
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
    """Returns a row without nested dictionaries: their keys are joined by dots."""
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

    # To print a whole result, use json.dumps, or to_pandas for a table.
    __str__ = __repr__

    def to_pandas(self):
        """Returns a ``pandas.DataFrame``. Needs pandas."""
        return _frame(self._rows(), "pandas")

    def to_polars(self):
        """Returns a ``polars.DataFrame``. Needs polars."""
        return _frame(self._rows(), "polars")


class Result(_Frames, dict):
    """The result of one run: the dictionary that ``strandline-lab simulate --json`` prints. As a frame it is one row."""

    _what = "key"

    def __init__(self, found):
        self.cells = dict(found.pop("cells", []))
        super().__init__(found)

    def _rows(self):
        return [self.cells or _flat({k: v for k, v in self["result"].items() if not isinstance(v, (dict, list))})]


class Rows(_Frames, list):
    """Rows with the command's keys. In a frame each is a row, and each entry of a nested dictionary has a column of its own."""

    _what = "row"

    def _rows(self):
        return [_flat(row) for row in self]


class Checked(Rows):
    """The result of ``check``: a dictionary for each case."""

    @property
    def violations(self):
        """The rows in which recovery did not repair a state. With ``mutants``, the mutants that were detected."""
        return Rows(row for row in self if row["violation"] is not None)


class Litmus(Rows):
    """The result of ``litmus``: a dictionary for each test and setting. In a frame each question is a row."""

    def _rows(self):
        return [
            {"name": row["name"], "setting": row["setting"], "states": row["states"], **ask}
            for row in self
            for ask in row["asks"]
        ]


class Sweep(_Frames, list):
    """The result of a sweep, in the order of its points: dictionaries with ``keys``, ``result`` and ``notes``.

    In a frame there is a row for each run, with the columns of ``points.csv`` for one seed. ``folder`` has the files, if they were kept.
    """

    _what = "run"

    def __init__(self, found, folder=None):
        self._cells = [dict(row.pop("cells")) for row in found["rows"]]
        super().__init__(found["rows"])
        self.missing = found["missing"]
        self.folder = folder

    def _rows(self):
        return [{name: _number(value) for name, value in cells.items()} for cells in self._cells]
