"""Names that survive power loss: a file that was synced is lost all the same when its folder was not."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Return once the names in `folder` are on disk (see fsync(2), NOTES). Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int) -> None:
    """Make `folder` with that mode, and those above it, where they are missing. Raises OSError."""
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent, 0o777)
    folder.mkdir(mode=mode, exist_ok=True)
    sync_folder(folder.parent)


def write_once(path: Path, text: str) -> str:
    """Make a file that only we can read, unless there is one already; returns what it holds. Raises OSError.

    It is never there in part, nor empty after a power loss: it gets its name when its contents are on disk.
    """
    if not path.exists():
        made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was faster; unlike a rename, a link keeps what it made
                os.link(made, path)
        finally:
            made.unlink(missing_ok=True)
        sync_folder(path.parent)
    return path.read_text()
