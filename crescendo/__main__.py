"""Entry point of `crescendo` and `python -m crescendo`. It handles Ctrl-C before it imports anything slow."""

import os

from crescendo.interrupts import leave_at_once


def main() -> None:
    """Run the command line. Ctrl-C during loading has the same effect as later: one line and exit code 130."""
    leave_at_once()
    _open_streams()
    from crescendo.cli.main import app

    app()


def _open_streams() -> None:
    """Open stdin, stdout and stderr if the parent process closed them; else the next files opened would take their numbers."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


if __name__ == "__main__":
    main()
