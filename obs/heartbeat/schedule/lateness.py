"""How late is late: a predictive upper bound of the next residual, from those seen.

No one shape suits all delays, so several are weighed by how well they explain the residuals (Bayesian model
averaging). Delays that multiply are lognormal above some least delay, and the further below the residuals that
least delay lies, the more symmetric the shape: three places for it reach from a long tail to all but normal.
Delays drawn on purpose (a randomised timer, a poller's tick) are uniform. A shape may use up of the tail what
its weight is, so one that is nearly ruled out hardly counts.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

TAIL = 0.0002
SLACK_SECONDS = 40.0
RECENT = 80
_PRIOR_COUNT = 10.0
_PRIOR_SD = 0.58  # of the logarithm, above the nearest anchor
_ANCHORS = (0.5, 2.0, 8.0)  # how far below the least residual, in distances from it to the median
_UNIFORM = 0.3  # prior of the uniform shape
_UNIFORM_NATS = math.log(3.0)
_CUT = 0.5
_NO_TAIL = 0.4  # a shape of so little weight bounds nothing


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


def upper_bound(residuals: Sequence[float], spacing: float = math.inf) -> float:
    """Seconds that the next residual exceeds with probability 0.0002, from the last 80; without the fixed
    slack.

    `spacing` is the seconds from one slot to the next: residuals that fill more than half of it end where they
    were cut, which says nothing of a largest delay, so they are not taken for uniform.

    Lognormal: with x = ln(r - a), a below the least residual, the next x is Student-t with the prior
    counted as 10 observations (normal with a flat mean and scaled inverse chi-squared variance; Gelman et al.,
    Bayesian Data Analysis, 3.2). Uniform on unknown ends: with n values of range R, the next exceeds the
    largest by d with probability (1 + d / R)^(1 - n) / (n + 1).
    """
    recent = tuple(residuals[-RECENT:])
    return _upper_bound(recent, max(recent) - min(recent) > _CUT * spacing)


@lru_cache(maxsize=1024)
def _upper_bound(residuals: tuple[float, ...], cut: bool) -> float:
    recent = sorted(residuals)
    count = len(recent)
    low, width, half = recent[0], recent[-1] - recent[0], recent[count // 2] - recent[0]
    df = _PRIOR_COUNT + count - 1
    shapes = []  # each with the log of its evidence: the residuals' density, the unknowns averaged out
    common = math.lgamma(df / 2) - math.lgamma(_PRIOR_COUNT / 2)
    common -= 0.5 * (math.log(count) + (count - 1) * math.log(math.pi))
    reach = math.expm1(_PRIOR_SD) * (1 + _ANCHORS[0])
    for distance in _ANCHORS:
        anchor = low - max(1.0, distance * half)
        logs = [math.log(r - anchor) for r in recent]
        total = sum(logs)
        mean = total / count
        prior = _PRIOR_COUNT * math.log1p(reach / (1 + distance)) ** 2  # the same in seconds from every anchor
        squares = prior + sum((x - mean) ** 2 for x in logs)
        evidence = common - total + mean + _PRIOR_COUNT / 2 * math.log(prior) - df / 2 * math.log(squares)
        spread = math.sqrt(squares / df * (1 + 1 / count))
        shapes.append((evidence + math.log((1 - _UNIFORM) / len(_ANCHORS)), anchor, mean, spread))
    uniform = -math.inf
    if count >= 3 and width > 0 and not cut:
        uniform = math.log(_UNIFORM) - (count - 1) * math.log(width) - math.log(count * (count - 1)) - _UNIFORM_NATS
    best = max(uniform, *(shape[0] for shape in shapes))
    whole = math.exp(uniform - best) + sum(math.exp(shape[0] - best) for shape in shapes)
    bound = low
    for evidence, anchor, mean, spread in shapes:
        tail = TAIL * whole * math.exp(min(best - evidence, 50.0))
        if tail < _NO_TAIL:
            bound = max(bound, anchor + math.exp(mean + student_t_quantile(tail, df) * spread))
    tail = TAIL * whole * math.exp(min(best - uniform, 50.0))
    if tail < _NO_TAIL:
        beyond: float = max(0.0, ((count + 1) * tail) ** (-1 / (count - 1)) - 1)
        bound = max(bound, recent[-1] + width * beyond)
    return bound
