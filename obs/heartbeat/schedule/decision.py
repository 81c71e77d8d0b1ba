"""When silence means overdue: over all hypotheses that still hold weight, not over the best alone."""

from collections.abc import Sequence

NEGLIGIBLE = 1e-5
_PATIENCE = 0.002
_PATIENCE_GROWTH = 1.03


def overdue_from(moments: Sequence[tuple[float, float]], usual: float) -> float:
    """The first moment at which the hypotheses still waiting hold too little weight to wait for.

    `moments` are (epoch second at which a hypothesis gives up waiting, its weight); `usual` is the usual
    interval in seconds. Too little is 0.2 % of the weight, and 3 % more of that for each usual interval
    waited on.
    """
    ordered = sorted(moments)
    total = sum(weight for _, weight in ordered)
    waiting = total
    for moment, weight in ordered:
        waiting -= weight
        if waiting / total < _PATIENCE * _PATIENCE_GROWTH ** min(1000, (moment - ordered[0][0]) / max(usual, 1.0)):
            return moment
    return ordered[-1][0]
