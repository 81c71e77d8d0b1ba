"""The last runs of a job as small bars: height is duration, colour and foot are the outcome. Pure.

The runs of one outcome are one path of steps on a grid of a column a run, which the style sheet stretches and cuts into
bars, because five hundred jobs of thirty bars each must stay a small page.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

SHOWN = 30
_BASE, _FOOT = 9, 11
_DRAWN_AS_BAD = ("failed", "lost")
_DRAWN_GAPS = 3  # of those between two runs; their number is told in words


class Bar(NamedTuple):
    """A run: its start, its outcome and how long it took; milliseconds."""

    started_at: int
    status: str
    duration_ms: int | None


@lru_cache(maxsize=2048)  # most jobs look as they did at the last refresh
def draw(runs: tuple[Bar, ...], missed: tuple[int, ...] = ()) -> Markup:
    """Runs, oldest first. `missed` holds for each run how many were due before it and did not come; where it is one
    longer than `runs`, the last number is of those due since.
    """
    marks = _with_gaps(runs, missed)[-SHOWN:]
    longest_ms = max((run.duration_ms or 0 for run in runs), default=0)
    first = SHOWN - len(marks)
    tops: dict[str, dict[int, int]] = {}
    for place, run in enumerate(marks, start=first):
        if run is None:
            tops.setdefault("gap", {})[place] = _BASE - 1
            continue
        tops.setdefault(run.status, {})[place] = _top(run.duration_ms, longest_ms)
    drawn = (
        f'<path class="bar-{status}" d="{_steps(places, _FOOT if status in _DRAWN_AS_BAD else _BASE)}"/>'
        for status, places in tops.items()
    )
    # Nothing in here comes from a client: statuses are a fixed set, the rest are numbers.
    return Markup(f'<svg role="img" aria-label="{describe(runs, sum(missed))}">{"".join(drawn)}</svg>')  # noqa: S704


def describe(runs: Sequence[Bar], missed: int) -> str:
    """The same in words: ``Last 30 runs: 28 success, 2 failed; 1 did not come``."""
    if not runs:
        return "No runs yet"
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), key=lambda item: -item[1]))
    return f"Last {len(runs)} runs: {told}" + (f"; {missed} did not come" if missed else "")


def _steps(tops: dict[int, int], base: int) -> str:
    """A path over `base` that rises to each top at its place, which are in order; neighbours of one height are one."""
    steps: list[str] = []
    end, height = -1, base
    for place, top in tops.items():
        if place != end:
            steps.append((f"V{base}" if steps else "") + f"M{place} {base}")
            height = base
        if top == height:
            steps[-1] = _longer(steps[-1])
        else:
            steps.append(f"V{top}h1")
            height = top
        end = place + 1
    return "".join(steps) + f"V{base}"


def _longer(step: str) -> str:
    before, _, width = step.rpartition("h")
    return f"{before}h{int(width) + 1}"


def _top(duration_ms: int | None, longest_ms: int) -> int:
    """Where a bar ends. A run without a duration is half as high as the longest."""
    share = 0.5 if duration_ms is None or not longest_ms else duration_ms / longest_ms
    return _BASE - max(2, round(share * _BASE))


def _with_gaps(runs: Sequence[Bar], missed: Iterable[int]) -> list[Bar | None]:
    """None stands for a run that did not come."""
    marks: list[Bar | None] = []
    ahead = list(missed) or [0] * len(runs)
    for gaps, run in zip(ahead, runs, strict=False):
        marks += [*[None] * min(_DRAWN_GAPS, gaps), run]
    return marks + [None] * min(_DRAWN_GAPS, sum(ahead[len(runs) :]))
