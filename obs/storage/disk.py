"""The disk: its free space, a part of which is reserved for heartbeats, and files and folders with durable names."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from obs.errors import ServiceError

_TRY_SECONDS = 5.0  # between two attempts to write
_log = logging.getLogger(__name__)


class DiskSpace:
    """The free space as of the last `watch`. Raises OSError."""

    def __init__(self, folder: Path, reserve_bytes: int, monotonic: Callable[[], float]) -> None:
        self._folder = folder
        self.reserve_bytes = reserve_bytes or min(512 << 20, shutil.disk_usage(folder).total // 20)
        self._monotonic, self._next_try = monotonic, -1.0
        self._problem: str | None = None
        self.is_low = False  # whether less than the reserve is free, so background work and downloads stop
        self.watch()

    def watch(self) -> None:
        was_low = self.is_low
        self.free_bytes = shutil.disk_usage(self._folder).free
        # It is low until a tenth more is free, so that it does not change with every write.
        self.is_low = self.free_bytes < self.reserve_bytes * (1.1 if self.is_low else 1)
        self.is_short = self.free_bytes < self.reserve_bytes // 2  # only heartbeats of existing jobs are recorded
        if self.is_low != was_low:
            _log.warning("disk space is %s: %s", "low" if self.is_low else "sufficient again", self.summary())

    def summary(self) -> str:
        return f"{self.free_bytes >> 20} MiB are free, {self.reserve_bytes >> 20} MiB are reserved for heartbeats"

    def refuse(self, when: bool) -> None:
        """Raise ServiceError (507) if `when`, which is `is_low` or `is_short`."""
        if when:
            hint = "Free some space on the disk of the service. Everything continues then by itself."
            raise ServiceError("storage_low", f"The disk has little free space: {self.summary()}.", hint=hint)

    def write_problem(self) -> str | None:
        """Why nothing can be written durably; None if it can. A write is tried at most every _TRY_SECONDS."""
        if self._monotonic() >= self._next_try:
            self._next_try = self._monotonic() + _TRY_SECONDS  # first, so that others do not wait for a slow disk
            error = try_to_write(self._folder)
            self._problem = None if error is None else f"cannot be written: {error.strerror}"
        return self._problem


def try_to_write(folder: Path) -> OSError | None:
    """Write a file in `folder` durably; the error if that fails. The file has no name and is gone afterwards."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(1 << 16))  # a new file: existing ones can be written even on a full disk
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return None


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
    make_folder(folder.parent, 0o777)
    folder.mkdir(mode=mode, exist_ok=True)
    sync_folder(folder.parent)


def write_once(path: Path, text: str) -> str:
    """Create a file with `text` that only this user can read, unless it has contents; returns them. Raises OSError.

    It is never incomplete, even after a power loss: it gets its name once its contents are on disk.
    """
    if not (path.exists() and path.stat().st_size):
        # FileNotFoundError: it was renamed.
        with suppress(FileNotFoundError), tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new.") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            try:
                os.link(file.name, path)
            except OSError:  # unlike a rename, a link keeps the file of a process that was faster
                if not (path.exists() and path.stat().st_size):  # some file systems have no links, such as FAT
                    os.rename(file.name, path)
        sync_folder(path.parent)
    return path.read_text()
