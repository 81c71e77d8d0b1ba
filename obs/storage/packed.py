"""Sorted whole numbers as blobs: little-endian, with 4 bytes each if all of them fit, else with 8.

The first byte is the typecode of `array` for the size: ``I`` or ``q``.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence

MOST_IN_A_PART = 50_000
"""Numbers in one blob. The connections of queries do not read values of more than a megabyte."""

_BYTES = {"I": 4, "q": 8}
assert all(array(code).itemsize == size for code, size in _BYTES.items())


def pack(numbers: Sequence[int]) -> Iterator[bytes]:
    """The blobs of `numbers`, which are ascending. The numbers in each blob are ascending too."""
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
