"""The command ``strandline``."""

import sys

from . import _strandline


def main():
    """Does what the program's arguments say; its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["torture"] or (arguments[:1] == ["bench"] and "--instructions" in arguments):
        print(
            f"error: {arguments[0]} starts processes of the command, which is Python here: install the command itself (cargo install strandline-cli)",
            file=sys.stderr,
        )
        return 2
    return _strandline.main(["strandline", *arguments])


if __name__ == "__main__":
    sys.exit(main())
