"""The command `crescendo`, also `python -m crescendo`. It imports nothing that takes time before it can be interrupted."""

import os

from crescendo.interrupts import leave_at_once


def main() -> None:
    """Run the command line. Ctrl-C while it is still being loaded ends it like Ctrl-C later on: one line, exit code 130."""
    leave_at_once()
    _open_streams()
    from crescendo.cli.main import app

    app()


def _open_streams() -> None:
    """Whoever started us may have closed stdin, stdout or stderr; the next file opened would take its place and be written to."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


if __name__ == "__main__":
    main()
