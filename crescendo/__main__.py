"""The command `crescendo`, also `python -m crescendo`. It imports nothing that takes time before it can be interrupted."""

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line. Ctrl-C while it is still being loaded ends it like Ctrl-C later on: one line, exit code 130."""
    _open_streams()
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not under nohup, for example
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    from crescendo.cli.main import app

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app()


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing is begun, so nothing needs tidying up; an exception could be swallowed or turned into another by an import."""
    os.write(2, b"crescendo: stopped\n")
    os._exit(130)


def _open_streams() -> None:
    """Whoever started us may have closed stdin, stdout or stderr; the next file opened would take its place and be written to."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


if __name__ == "__main__":
    main()
