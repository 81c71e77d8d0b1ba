"""Sorted whole numbers as blobs: the typecode of `array`, then 4 bytes each (``I``) if all of them fit, else 8 (``q``).

Their byte order is the machine's, which is little-endian wherever granian has wheels.
"""

from array import array
from collections.abc import Sequence

LARGEST_BLOB = 900_000  # bytes; the connections of queries do not read values of more than a megabyte


def pack(numbers: Sequence[int]) -> bytes:
    code = "I" if not numbers or (numbers[0] >= 0 and numbers[-1] < 2**32) else "q"
    return code.encode() + array(code, numbers).tobytes()


def unpack(blob: bytes) -> Sequence[int]:
    return array(chr(blob[0]), blob[1:])
