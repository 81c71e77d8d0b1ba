"""How late is late: a predictive upper bound of the next residual, from those seen.

Two shapes are tried. Delays that add up are lognormal above some least delay; delays drawn on purpose (a
randomised timer, a poller's tick) are uniform. The larger bound holds, unless one shape explains the
residuals clearly better.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

TAIL = 0.0002
SLACK_SECONDS = 40.0
RECENT = 80
_PRIOR_COUNT = 10.0
_PRIOR_SD = 0.58
_CLEARLY_NATS = 4.0


def student_t_quantile(upper_tail: float, df: float) -> float:
    """What a Student-t of `df` degrees of freedom exceeds with this probability.

    The approximation of G. W. Hill, Algorithm 396, Communications of the ACM 13 (1970).
    """
    two = 2 * upper_tail
    a = 1 / (df - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * df
    x = d * two
    y: float = x ** (2 / df)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(two / 2)
        y = x * x
        if df < 5:
            c += 0.3 * (df - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1 / (((df + 6) / (df * y) - 0.089 * d - 0.822) * (df + 2) * 3) + 0.5 / (df + 4)) * y - 1) * (df + 1) / (
            df + 2
        ) + 1 / y
    return math.sqrt(df * y)


_T = [student_t_quantile(TAIL, _PRIOR_COUNT + n) for n in range(RECENT + 1)]


def upper_bound(residuals: Sequence[float]) -> float:
    """Seconds that the next residual exceeds with probability 0.0002, from the last 80; without the fixed
    slack.

    Lognormal: with x = ln(r - a), a below the least residual, the next x is Student-t with the prior
    counted as 10 observations of standard deviation 0.58. Uniform on unknown ends: with n values of range R,
    the next exceeds the largest by d with probability (1 + d / R)^(1 - n) / (n + 1).
    """
    return _upper_bound(tuple(residuals[-RECENT:]))


@lru_cache(maxsize=1024)
def _upper_bound(residuals: tuple[float, ...]) -> float:
    recent = sorted(residuals)
    count = len(recent)
    low, high, middle = recent[0], recent[-1], recent[count // 2]
    anchor = low - max(1.0, 0.5 * (middle - low))
    logs = [math.log(r - anchor) for r in recent]
    mean = sum(logs) / count
    squares = sum((x - mean) ** 2 for x in logs)
    df = _PRIOR_COUNT + count - 1
    spread = math.sqrt((_PRIOR_COUNT * _PRIOR_SD**2 + squares) / df)
    lognormal = anchor + math.exp(mean + _T[count - 1] * spread * math.sqrt(1 + 1 / count))
    width = high - low
    if count < 3 or width <= 0:
        return lognormal
    uniform: float = high + width * max(0.0, ((count + 1) * TAIL) ** (-1 / (count - 1)) - 1)
    sd = math.sqrt(squares / count) or 1e-9
    explained = -count * math.log(width) - (-sum(logs) - count * (math.log(sd) + 0.919 + 0.5))
    if explained > _CLEARLY_NATS:
        return uniform
    if explained < -_CLEARLY_NATS:
        return lognormal
    return max(lognormal, uniform)
