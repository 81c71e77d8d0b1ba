"""Durable names: after a power loss, a synced file is missing if its folder was not synced."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write the names in `folder` to disk (see the notes in fsync(2)). Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int) -> None:
    """Create `folder` with `mode`, and its parents, if they are missing. Raises OSError."""
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent, 0o777)
    folder.mkdir(mode=mode, exist_ok=True)
    sync_folder(folder.parent)


def write_once(path: Path, text: str) -> str:
    """Create a file with `text` that only this user can read, unless it exists; returns its contents. Raises OSError.

    The file is never incomplete, even after a power loss: it gets its name once its contents are on disk.
    """
    if not path.exists():
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was faster: unlike a rename, a link keeps its file
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    return path.read_text()
