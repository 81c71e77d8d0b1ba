"""The grace period: how long after its slot a run may still start, predicted from the residuals seen so far.

No single distribution fits all delays, so several are weighted by how well they explain the residuals (Bayesian model
averaging). Delays that multiply are lognormal above some minimum delay. The further that minimum lies below the
residuals, the more symmetric the distribution: three choices for it range from a long tail to almost normal. Delays
that are drawn on purpose (a randomized timer, a poller's tick) are uniform. Each distribution may use up a share of the
tail probability in proportion to its weight, so one that is nearly ruled out hardly counts.

Run durations are bounded in the same way.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

from obs.heartbeat.schedule.history import MIN_HEARTBEATS
from obs.times import SECOND_MS

MOST_SLACK_MS = 30 * SECOND_MS
_LEAST_MS = 25 * SECOND_MS  # enough for a client to try four times
RECENT = 80  # how many of the latest residuals or durations a bound is predicted from
_TAIL = 0.0002  # the probability that the next residual exceeds the bound
_PRIOR_COUNT, _PRIOR_SD = 10.0, 0.58  # of the logarithm, above the nearest anchor
_ANCHORS = (0.5, 2.0, 8.0)  # how far below the smallest residual, in distances from it to the median
_UNIFORM = 0.3  # prior probability of the uniform distribution
_UNIFORM_NATS = math.log(_UNIFORM / 3)  # its logarithm; a third of it, as a penalty
_QUICKER, _SLOWER = 15, 5  # so many runs of each kind are told apart
_CUT_SHARE, _NO_TAIL = 0.5, 0.4  # the latter is that of a distribution of so little weight that it bounds nothing


@lru_cache(maxsize=1024)
def upper_bound(residuals: tuple[int, ...], spacing_ms: int | None = None) -> int:
    """The milliseconds that the next residual exceeds with probability 0.0002.

    `spacing_ms` is the time from one slot to the next, None if there is no next slot. Residuals that fill more than
    half of it end where the next slot begins, not at the largest delay, so they are not taken for uniform.

    Lognormal: with x = ln(r - a), where a is below the smallest residual, the next x has a Student-t distribution; the
    prior counts as 10 observations (normal with a flat mean and scaled inverse chi-squared variance; Gelman et al.,
    Bayesian Data Analysis, section 3.2). Uniform with unknown ends: after n values with range R, the next value exceeds
    the largest by d with probability (1 + d / R)^(1 - n) / (n + 1).
    """
    recent = sorted(residuals)
    count = len(recent)
    low, width, half = recent[0], recent[-1] - recent[0], recent[count // 2] - recent[0]
    df = _PRIOR_COUNT + count - 1
    shapes = []  # each begins with the log of its evidence: the density of the residuals, unknowns averaged out
    common = math.lgamma(df / 2) - math.lgamma(_PRIOR_COUNT / 2)
    common -= 0.5 * (math.log(count) + (count - 1) * math.log(math.pi))
    reach = math.expm1(_PRIOR_SD) * (1 + _ANCHORS[0])
    for distance in _ANCHORS:
        anchor = low - max(SECOND_MS, distance * half)
        logs = [math.log(r - anchor) for r in recent]
        total = sum(logs)
        mean = total / count
        prior = _PRIOR_COUNT * math.log1p(reach / (1 + distance)) ** 2  # the same in milliseconds for every anchor
        squares = prior + sum((x - mean) ** 2 for x in logs)
        evidence = common - total + mean + _PRIOR_COUNT / 2 * math.log(prior) - df / 2 * math.log(squares)
        spread = math.sqrt(squares / df * (1 + 1 / count))
        shapes.append((evidence + math.log((1 - _UNIFORM) / len(_ANCHORS)), anchor, mean, spread))
    uniform = -math.inf
    if count >= 3 and width > 0 and (spacing_ms is None or width <= _CUT_SHARE * spacing_ms):
        uniform = _UNIFORM_NATS - (count - 1) * math.log(width) - math.log(count * (count - 1))
    best = max(uniform, *(shape[0] for shape in shapes))
    whole = math.exp(uniform - best) + sum(math.exp(shape[0] - best) for shape in shapes)
    bound = float(low)
    for evidence, anchor, mean, spread in shapes:
        tail = _TAIL * whole * math.exp(min(best - evidence, 50.0))
        if tail < _NO_TAIL:
            bound = max(bound, anchor + math.exp(mean + student_t_quantile(tail, df) * spread))
    tail = _TAIL * whole * math.exp(min(best - uniform, 50.0))
    if tail < _NO_TAIL:
        beyond: float = max(0.0, ((count + 1) * tail) ** (-1 / (count - 1)) - 1)
        bound = max(bound, recent[-1] + width * beyond)
    # Some runs take far longer, such as the first of each month. What came twice is waited for, and somewhat longer.
    most = math.ceil(bound if recent[max(0, count - 2)] <= bound else recent[-1] + width / 4)
    apart, at = max(((recent[at] - recent[at - 1], at) for at in range(_QUICKER, count - _SLOWER + 1)), default=(0, 0))
    is_apart = apart > recent[-1] - recent[at] > 0  # there is a slower kind of runs, as on Sundays, that decides
    return min(most, upper_bound(tuple(recent[at:]), spacing_ms)) if is_apart else most


def duration_bound(durations_ms: Sequence[int]) -> int | None:
    """Milliseconds after which an open run takes longer than the last 80, in their order; None with fewer than 3."""
    recent = tuple(duration for duration in durations_ms[-RECENT:] if duration >= 0)
    return with_slack(upper_bound(recent)) if len(recent) >= MIN_HEARTBEATS else None


def with_slack(bound_ms: int) -> int:
    """A bound and half of it more, but at most 30 seconds more; at least 25 seconds, as networks have their delays."""
    return max(_LEAST_MS, bound_ms + min(bound_ms // 2, MOST_SLACK_MS))


def student_t_quantile(upper_tail: float, df: float) -> float:
    """The value that a Student-t variable with `df` (10 or more) degrees of freedom exceeds with this probability.

    The Cornish-Fisher expansion: Abramowitz and Stegun, Handbook of Mathematical Functions, formula 26.7.5.
    """
    x = NormalDist().inv_cdf(1 - upper_tail)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + sum(term / df**power for power, term in enumerate(terms, 1))
