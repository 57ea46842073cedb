"""The commands ``strandline``, ``strandline-check`` and ``strandline-lab``."""

import sys

from . import _strandline


def _run(command, package):
    arguments = sys.argv[1:]
    if arguments[:1] == ["torture"] or (arguments[:1] == ["bench"] and "--instructions" in arguments):
        print(
            f"error: {arguments[0]} starts processes of the command, which is Python here: install the command itself (cargo install {package})",
            file=sys.stderr,
        )
        return 2
    return _strandline.main([command, *arguments])


def main():
    """Runs the command ``strandline`` with the program's arguments, and returns its exit code."""
    return _run("strandline", "strandline-cli")


def check():
    """Like :func:`main`, for ``strandline-check``."""
    return _run("strandline-check", "strandline-check-cli")


def lab():
    """Like :func:`main`, for ``strandline-lab``."""
    return _run("strandline-lab", "strandline-lab-cli")


if __name__ == "__main__":
    sys.exit(main())
