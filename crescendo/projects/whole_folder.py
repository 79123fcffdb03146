"""Whole folders: a folder appears under its name with all its files on disk, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from crescendo.errors import ConfigError
from crescendo.whole_files import sync_folder


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` (name: text) into a draft next to ``folder``, sync them, and only then give the folder its name.

    Any failure, such as a full disk or Ctrl-C, leaves nothing behind.
    """
    check_new(folder)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.parent))
    except OSError as error:
        raise _refused(folder, error) from None
    try:
        for name, text in files.items():
            with (draft / name).open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        draft.chmod(0o777 & ~_umask())  # the mode that mkdir gives; the draft was for its owner only
        sync_folder(draft)
        draft.rename(folder)
    except OSError as error:
        if folder.exists():
            check_new(folder)
        raise _refused(folder, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync_folder(folder.parent)


def check_new(folder: Path) -> None:
    """Refuse a ``folder`` that exists or whose parent does not."""
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} exists already; give the project another name, or remove it")
    if not folder.parent.is_dir():
        raise ConfigError(
            f"there is no folder {folder.parent} to make {folder.name} in; make it, or name another place"
        )


def _refused(folder: Path, error: OSError) -> ConfigError:
    reason = (error.strerror or "unknown reason").lower()
    return ConfigError(f"the project {folder} cannot be written: {reason}; nothing was left behind")


def _umask() -> int:
    """Return the umask, which can be read only by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found
