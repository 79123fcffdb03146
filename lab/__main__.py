"""`python -m lab`, the command line of the laboratory."""

from crescendo.interrupts import leave_at_once


def main() -> None:
    leave_at_once()
    from lab.commands import app

    app(prog_name="python -m lab")


if __name__ == "__main__":
    main()
