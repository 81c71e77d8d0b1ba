"""faults.c, built and put into a service: a journal of what is written, and faults that the test switches on."""

import atexit
import mmap
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.selection import find_compiler

SOURCE = Path(__file__).with_name("faults.c")
_FORMAT = struct.Struct("<qiiii")


def _new_folder() -> Path:
    """A folder that is deleted when this process ends."""
    folder = mkdtemp(prefix="obs-faults-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


@cache
def shim() -> Path:
    """The shared library, built once a process. Raises AssertionError where there is no C compiler."""
    compiler = find_compiler()
    assert compiler is not None, "the crash tests need a C compiler (Debian: apt-get install gcc libc6-dev)"
    built = _new_folder() / "faults.so"
    subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(built), str(SOURCE), "-ldl"],
        check=True,
    )
    return built


class Faults:
    """What is done to all files below `root` by the processes that are started with `environment`."""

    def __init__(self, root: Path, journal: Path | None = None) -> None:
        self.journal = journal
        control = _new_folder() / "control"
        control.write_bytes(bytes(_FORMAT.size))
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _FORMAT.size)
        self.environment = {
            "LD_PRELOAD": str(shim()),
            "FAULTS_ROOT": str(root),
            "FAULTS_CONTROL": str(control),
            **({} if journal is None else {"FAULTS_JOURNAL": str(journal)}),
        }

    def set(
        self,
        *,
        clock_offset_seconds: float | None = None,
        disk_full: bool | None = None,
        syncs_fail: bool | None = None,
        syncs_take_ms: int | None = None,
    ) -> None:
        """Switch faults on and off at once, in all processes; what is left out stays as it is.

        `disk_full`: files cannot grow, and no new ones be made; what is there can be written over.
        """
        given = (
            None if clock_offset_seconds is None else round(clock_offset_seconds * 1e9),
            disk_full,
            syncs_fail,
            None if syncs_take_ms is None else syncs_take_ms * 1000,
        )
        now = _FORMAT.unpack_from(self._mapped)
        values = (old if new is None else int(new) for old, new in zip(now, given, strict=False))
        struct.pack_into("<qiii", self._mapped, 0, *values)

    @property
    def refused(self) -> int:
        """How many calls were made to fail so far."""
        return int(_FORMAT.unpack_from(self._mapped)[4])
