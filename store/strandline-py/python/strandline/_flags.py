"""Converts keywords to the command's flags. The command describes their meaning."""

import json
import os

from . import _strandline

# Keywords with another name than the command's flag: here the unit is part of the name.
NAMES = {
    "idle_percent": "idle",
    "warm_up_transactions": "warm-up",
    "value_bytes": "value-size",
    "operations_per_transaction": "ops-per-tx",
    "log_bytes": "log-size",
    "limit_seconds": "seconds",
}


def flag(name):
    """Returns the flag of a keyword, without its dashes. Keys of the machine, which have dots, are not changed."""
    return name if "." in name else NAMES.get(name, name.replace("_", "-"))


def text(value):
    """Returns a value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def several(value):
    """Returns values as one text. Items of lists are separated by commas."""
    is_one = isinstance(value, (str, bytes, os.PathLike)) or not hasattr(value, "__iter__")
    return text(value) if is_one else ",".join(text(one) for one in value)


def flags(subcommand, given):
    """Returns the command's arguments. A keyword that is None was not given, and has the command's default."""
    arguments = subcommand.split()
    for name, value in given.items():
        long = "--" + flag(name)
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(long)
        elif isinstance(value, dict):
            for key, one in value.items():
                key = flag(key) if name == "sweep" else key
                arguments.append(f"{long}={key}={several(one)}")
        else:
            arguments.append(f"{long}={several(value)}")
    return arguments


def documented(subcommand):
    """Adds the command's description of each parameter to a function's docstring."""

    def add(function):
        known = {one["name"]: one for one in json.loads(_strandline.parameters(subcommand))}
        lines = []
        for name in function.__kwdefaults__:
            one = known.get(flag(name))
            if one and one["help"]:
                default = f" (default {one['default']})" if one["default"] else ""
                lines.append(f"    {name}: {one['help']}{default}")
        function.__doc__ = function.__doc__.rstrip() + "\n\nParameters, in the command's words:\n" + "\n".join(lines) + "\n"
        return function

    return add
