"""Sorted whole numbers as blobs: the typecode of `array`, then 4 bytes each (``I``) if all of them fit, else 8 (``q``).

Their byte order is the machine's, which is little-endian wherever granian has wheels.
"""

from array import array
from collections.abc import Sequence
from itertools import chain
from operator import mul
from typing import Any

LARGEST_BLOB = 900_000  # bytes; the connections of queries do not read values of more than a megabyte
_FEW = 100  # so many numbers are sorted faster without numpy


def pack(numbers: Sequence[int]) -> bytes:
    code = "I" if not numbers or (numbers[0] >= 0 and numbers[-1] < 2**32) else "q"
    return code.encode() + array(code, numbers).tobytes()


def unpack(blob: bytes) -> "array[int]":
    return array(chr(blob[0]), blob[1:])


def together(numbers: Any, blobs: Sequence[bytes]) -> Any:
    """All `numbers` (a list, or an array of ``q``) and those of `blobs`: a list in order, or if many, a numpy array."""
    if isinstance(numbers, list) or len(numbers) + sum(map(len, blobs)) // 4 <= _FEW:
        return sorted(chain(numbers, *map(unpack, blobs)))
    import numpy  # takes 0.1 s and 25 MB, which most processes can do without

    if not blobs:
        return numpy.array(numbers)
    every = [*blobs, pack(sorted(numbers))]
    parts = [numpy.frombuffer(b"".join([blob[1:] for blob in every if blob[0] == code]), chr(code)) for code in b"Iq"]
    return numpy.concatenate([part for part in parts if len(part)])


def with_ranks(numbers: Any, *ranks: int) -> list[int | float]:
    """The numbers that have these ranks, counted from 0, if all are put in order; `numbers` are from `together`."""
    if not isinstance(numbers, list):
        numbers.partition(ranks)  # takes a fortieth of the time of sorting
        numbers = {rank: numbers[rank].item() for rank in ranks}
    return [numbers[rank] for rank in ranks]


def total(numbers: "array[int]") -> int:
    if len(numbers) <= 5 * _FEW:
        return sum(numbers)
    import numpy

    return int(numpy.frombuffer(numbers, numbers.typecode).sum())


def squares(numbers: "array[int]") -> int:
    """The sum of the squares."""
    if len(numbers) <= 5 * _FEW or numbers.typecode != "I":
        return sum(map(mul, numbers, numbers))
    import numpy

    high, low = numpy.divmod(numpy.frombuffer(numbers, "I"), 65536)
    high, low = high.astype(float), low.astype(float)  # the sums of their products, below 2^53, are exact
    return (int(high @ high) << 32) + (int(high @ low) << 17) + int(low @ low)
