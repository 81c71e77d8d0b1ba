"""What a disk may hold after the power was cut, rebuilt from the journal that faults.c writes.

The model is the strictest that POSIX allows: contents of a file are durable up to its last fsync or fdatasync, and a
name in a folder only after an fsync of that folder. Of what is not durable any part may be there: each sector of 512
bytes, each change of a size and each name on its own, in any order.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

SECTOR = 512

_HEADER = struct.Struct("<IBBHQQqQ")
_MAGIC = (0x46415553).to_bytes(4, "little")


class Op(IntEnum):
    """What a record tells of, as in faults.c."""

    OPENED = 1
    WROTE = 2
    TRUNCATED = 3
    SYNC_BEGUN = 4
    SYNCED = 5
    UNLINKED = 6
    RENAMED = 7
    LINKED = 8
    MADE_FOLDER = 9
    REMOVED_FOLDER = 10
    MAPPED = 11


class Record(NamedTuple):
    """One change or sync; `at_ns` is the monotonic clock."""

    op: Op
    at_ns: int
    path: str
    inode: int
    offset: int
    length: int
    data: bytes


def read_journal(path: Path) -> Iterator[Record]:
    """The records in the order in which they were made.

    A kill may cut a record off, with those of another process after it: it is left out, as if what it tells of had not
    been done. Nobody was told of that either.
    """
    held = path.read_bytes()
    at = 0
    while at + _HEADER.size <= len(held):
        _, op, _, path_length, at_ns, inode, offset, length = _HEADER.unpack_from(held, at)
        begin = at + _HEADER.size
        data = begin + path_length
        end = data + (length if op == Op.WROTE else 0)
        if end == len(held) or held.startswith(_MAGIC, end):
            yield Record(Op(op), at_ns, held[begin:data].decode(), inode, offset, length, held[data:end])
            at = end
        else:
            at = held.find(_MAGIC, begin)
            if at < 0:
                return


@dataclass(eq=False)
class File:
    """The contents of a file: what is durable, and the changes since. A change of size has no data."""

    durable: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    forgotten: int = 0
    """How many changes have become durable."""

    def change(self, offset: int, data: bytes | None) -> None:
        self.changes.append((offset, data))

    def mark(self) -> int:
        return self.forgotten + len(self.changes)

    def synced(self, mark: int) -> None:
        count = max(0, mark - self.forgotten)
        for change in self.changes[:count]:
            _apply(self.durable, *change)
        del self.changes[:count]
        self.forgotten += count

    def contents(self, chance: random.Random | None, keep: float) -> bytes:
        """What the disk may hold: each unsynced sector is kept with the probability `keep`."""
        held = bytearray(self.durable)
        for offset, data in self.changes:
            if keep == 1:
                _apply(held, offset, data)
            elif keep == 0 or chance is None:
                continue
            elif data is None:
                if chance.random() < keep:
                    _apply(held, offset, None)
            else:
                for begin, end in _sectors(offset, len(data)):
                    if chance.random() < keep:
                        _apply(held, offset + begin, data[begin:end])
        return bytes(held)


def _apply(held: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del held[offset:]
        held.extend(bytes(offset - len(held)))
        return
    held.extend(bytes(max(0, offset - len(held))))
    held[offset : offset + len(data)] = data


def _sectors(offset: int, length: int) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < length:
        end = min(length, (offset + begin) // SECTOR * SECTOR + SECTOR - offset)
        yield begin, end
        begin = end


FOLDER = File()
"""Stands for a folder among the names."""


@dataclass
class Folder:
    """The names in a folder: which are durable, and the changes since (several names may change at once)."""

    durable: dict[str, File] = field(default_factory=dict)
    changes: list[dict[str, File | None]] = field(default_factory=list)
    forgotten: int = 0

    def mark(self) -> int:
        return self.forgotten + len(self.changes)

    def synced(self, mark: int) -> None:
        count = max(0, mark - self.forgotten)
        for change in self.changes[:count]:
            _rename(self.durable, change)
        del self.changes[:count]
        self.forgotten += count

    def names(self, chance: random.Random | None, keep: float) -> dict[str, File]:
        held = dict(self.durable)
        for change in self.changes:
            if keep == 1 or (chance is not None and chance.random() < keep):
                _rename(held, change)
        return held


def _rename(held: dict[str, File], change: dict[str, File | None]) -> None:
    for name, file in change.items():
        if file is None:
            held.pop(name, None)
        else:
            held[name] = file


class Disk:
    """The files below `root`, which are durable as they are when this is made. SQLite's shared memory is none."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._folders: dict[str, Folder] = {str(self.root): Folder()}
        self._names: dict[str, File] = {}
        self._by_inode: dict[int, File] = {}
        self._marks: dict[tuple[int, int], tuple[File | Folder, int]] = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_dir():
                self._folders[str(path)] = Folder()
                file = FOLDER
            elif path.name.endswith("-shm"):
                continue
            else:
                file = File(bytearray(path.read_bytes()))
                self._by_inode[path.stat().st_ino] = file
            self._names[str(path)] = file
            self._folders[str(path.parent)].durable[path.name] = file

    def apply(self, record: Record, *, syncs_count: bool = True) -> None:
        """Do what a record says; with `syncs_count` False a sync makes nothing durable."""
        path = record.path
        match record.op:
            case Op.OPENED:
                file = self._names.get(path)
                if file is None or self._by_inode.get(record.inode) is not file:
                    assert record.length == 0, f"{path} was made in a way that the journal does not know"
                    self._by_inode[record.inode] = made = File()
                    if not path.endswith(" (deleted)"):  # a file without a name (O_TMPFILE), as Linux shows it
                        self._name({path: made})
            case Op.WROTE:
                self._by_inode[record.inode].change(record.offset, record.data)
            case Op.TRUNCATED:
                self._by_inode[record.inode].change(record.offset, None)
            case Op.SYNC_BEGUN:
                synced = self._folders.get(path) or self._by_inode[record.inode]
                self._marks[record.inode, record.offset] = synced, synced.mark()
            case Op.SYNCED:
                synced, mark = self._marks.pop((record.inode, record.offset))
                if syncs_count:
                    synced.synced(mark)
            case Op.UNLINKED:
                self._name({path: None})
            case Op.RENAMED | Op.LINKED:
                old, new = path.split("\0")
                self._name({new: self._names[old], **({old: None} if record.op == Op.RENAMED else {})})
            case Op.MADE_FOLDER:
                self._folders[path] = Folder()
                self._name({path: FOLDER})
            case Op.REMOVED_FOLDER:
                self._name({path: None})
            case _:
                raise AssertionError(f"{path} was changed in a way that the journal does not hold: {record.op}")

    def _name(self, change: dict[str, File | None]) -> None:
        for path, file in change.items():
            if file is None:
                self._names.pop(path, None)
            else:
                self._names[path] = file
        folders = {path.rpartition("/")[0] for path in change}
        for folder in folders:
            of_folder = {
                path.rpartition("/")[2]: file for path, file in change.items() if path.rpartition("/")[0] == folder
            }
            self._folders[folder].changes.append(of_folder)

    def unsynced(self) -> int:
        """How many changes are not durable."""
        files = {id(file): file for file in [*self._by_inode.values(), *self._names.values()]}
        of_files = sum(len(file.changes) for file in files.values())
        return of_files + sum(len(folder.changes) for folder in self._folders.values())

    def image(self, keep: float, chance: random.Random | None = None) -> dict[str, bytes | None]:
        """What the disk may hold by path relative to `root`, None for a folder.

        `keep` is the share of what is not durable that is there all the same: 0 for none, 1 for all of it.
        """
        held: dict[str, bytes | None] = {}

        def descend(folder: str) -> None:
            for name, file in sorted(self._folders[folder].names(chance, keep).items()):
                path = f"{folder}/{name}"
                relative = path[len(str(self.root)) + 1 :]
                if file is FOLDER:
                    held[relative] = None
                    descend(path)
                else:
                    held[relative] = file.contents(chance, keep)

        descend(str(self.root))
        return held


def lay_out(image: dict[str, bytes | None], root: Path) -> None:
    """Write an image below `root`, which is empty."""
    for relative, contents in image.items():
        path = root / relative
        if contents is None:
            path.mkdir()
        else:
            path.write_bytes(contents)
