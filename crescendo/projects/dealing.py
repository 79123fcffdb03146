"""Dealing of a table to two clients: the README's commands, which give each client a file."""

from __future__ import annotations

import shlex
from pathlib import Path

_PARTS = {"alice": "NR % 2 == 0", "bob": "NR % 2"}
_OPENED = {".gz": "gzip -dc", ".bz2": "bzip2 -dc", ".xz": "xz -dc"}


def dealing(table: str) -> str:
    """Return the paragraph with the commands, which suit a table with one line per record.

    >>> print(dealing("../p.csv").splitlines()[3])
    awk 'NR == 1 || NR % 2 == 0' ../p.csv > alice.csv
    """
    lines = "\n".join(_deal(shlex.quote(table), Path(table).suffix.lower(), name) for name in _PARTS)
    says = "Each client has its records in a file. For a trial, deal the table's records out to two clients:"
    return f"{says}\n\n```\n{lines}\n```\n\n"


def _deal(table: str, suffix: str, name: str) -> str:
    if suffix == ".parquet":
        first = list(_PARTS).index(name)
        code = f"import pandas, sys; pandas.read_parquet(sys.argv[1])[{first}::2].to_parquet(sys.argv[2])"
        return f'python -c "{code}" {table} {own_file(name, table)}'
    opened = f"{_OPENED[suffix]} {table} | " if suffix in _OPENED else ""
    return f"{opened}awk 'NR == 1 || {_PARTS[name]}'{'' if opened else f' {table}'} > {own_file(name, table)}"


def own_file(name: str, table: str) -> str:
    """Return the name of a client's file."""
    return f"{name}.parquet" if table.lower().rstrip("'").endswith(".parquet") else f"{name}.csv"
