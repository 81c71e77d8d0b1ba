"""Percentiles accurate to 1 % in little memory: DDSketch.

Each value is counted in a bucket by its logarithm. The values of a bucket differ by at most 2 %, and its middle
represents all of them. Source: Masson, Rim and Lee 2019, "DDSketch: a fast and fully-mergeable quantile sketch with
relative-error guarantees".
"""

import math
from collections.abc import Mapping

ACCURACY = 0.01
"""The largest relative error of a percentile."""
_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA = math.log(_GAMMA)
_ZERO = 1e-9


class Sketch:
    """Counts of values by bucket, separately for negative and positive ones. Values that are not finite are ignored."""

    __slots__ = ("_above", "_below", "_count", "_zeros")

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self._below: dict[int, int] = {}
        self._zeros = 0
        self._count = 0

    def add(self, value: float) -> None:
        """Count one value."""
        if not math.isfinite(value):
            return
        self._count += 1
        if -_ZERO < value < _ZERO:
            self._zeros += 1
            return
        side = self._above if value > 0 else self._below
        bucket = _bucket(value)
        side[bucket] = side.get(bucket, 0) + 1

    def percentile(self, fraction: float) -> float | None:
        """The value at the rank ``fraction * (count - 1)``, rounded down, within ACCURACY; None without values."""
        if not self._count:
            return None
        rank = math.floor(fraction * (self._count - 1))
        passed = 0
        for sign, side in ((-1, self._below), (0, {0: self._zeros}), (1, self._above)):
            for bucket in _ascending(side, sign):
                passed += side[bucket]
                if passed > rank:
                    return _middle(sign, bucket)
        raise AssertionError("every value is in a bucket")


def representative(value: float) -> float:
    """The percentile that a sketch returns if the value at the rank is `value`, which is finite."""
    if -_ZERO < value < _ZERO:
        return _middle(0, 0)
    return _middle(1 if value > 0 else -1, _bucket(value))


def _bucket(value: float) -> int:
    return math.ceil(math.log(abs(value)) / _LOG_GAMMA)


def _middle(sign: int, bucket: int) -> float:
    return sign * 2 * _GAMMA**bucket / (_GAMMA + 1)


def _ascending(side: Mapping[int, int], sign: int) -> list[int]:
    """Buckets in the order of their values: of negative values, the largest logarithm comes first."""
    return sorted(side, reverse=sign < 0)
