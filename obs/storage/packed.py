"""Sorted whole numbers as blobs: little-endian, 4 bytes each where they fit, else 8.

The first byte tells which: the typecode of `array`, ``I`` or ``q``.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence

MOST_IN_A_PART = 50_000
"""Numbers in one blob: what reads them may not take values of more than a megabyte."""

_BYTES = {"I": 4, "q": 8}
assert all(array(code).itemsize == size for code, size in _BYTES.items())


def pack(numbers: Sequence[int]) -> Iterator[bytes]:
    """The blobs that hold `numbers`, which are ascending; each blob for itself is ascending too."""
    for start in range(0, len(numbers), MOST_IN_A_PART):
        part = numbers[start : start + MOST_IN_A_PART]
        code = "I" if part[0] >= 0 and part[-1] < 2**32 else "q"
        yield code.encode() + _little_endian(array(code, part)).tobytes()


def unpack(blob: bytes) -> Sequence[int]:
    """The numbers in a blob, ascending."""
    numbers = array(chr(blob[0]))
    numbers.frombytes(memoryview(blob)[1:])
    return _little_endian(numbers)


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
