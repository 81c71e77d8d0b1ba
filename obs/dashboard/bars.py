"""The last runs of a job as small bars: the height shows the duration, colour and foot show the result. Pure.

All runs with one result are a single path of steps on a grid with one column per run. The style sheet stretches the
path and cuts it into bars. This keeps a page with five hundred jobs of thirty bars each small.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from obs.dashboard import wording
from obs.heartbeat.runs import PROBLEMS

SHOWN = 30
_BASE, _FOOT = 9, 11
_DRAWN_GAPS = 3  # between two runs at most; the label has the exact number


class Bar(NamedTuple):
    """A run: its start, its status and its duration in milliseconds."""

    started_at: int
    status: str
    duration_ms: int | None


@lru_cache(maxsize=2048)  # most jobs have not changed since the last refresh
def draw(runs: tuple[Bar, ...], missed: tuple[int, ...] = ()) -> Markup:
    """Draw runs, oldest first, as SVG.

    `missed` has for each run how many runs were missed before it. If it is one longer than `runs`, its last number is
    how many have been missed since the last run.
    """
    marks = _with_gaps(runs, missed)[-SHOWN:]
    longest_ms = max((run.duration_ms or 0 for run in runs), default=0)
    first = SHOWN - len(marks)
    tops: dict[str, dict[int, int]] = {}
    for place, run in enumerate(marks, start=first):
        status, top = ("gap", _BASE - 1) if run is None else (run.status, _top(run.duration_ms, longest_ms))
        tops.setdefault(status, {})[place] = top
    drawn = (
        f'<path class="bar-{status}" d="{_steps(places, _FOOT if status in PROBLEMS else _BASE)}"/>'
        for status, places in tops.items()
    )
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(f'<svg role="img" aria-label="{describe(runs, sum(missed))}">{"".join(drawn)}</svg>')  # noqa: S704


def describe(runs: Sequence[Bar], missed: int) -> str:
    """The same in words: ``Last 30 runs: 28 succeeded, 2 failed, 1 missed``."""
    if not runs:
        return "No runs yet"
    counts = Counter(run.status for run in runs)
    return f"Last {len(runs)} runs: {wording.results(dict(counts.most_common()), missed)}"


def _steps(tops: dict[int, int], base: int) -> str:
    """A path along `base` that rises to each top at its place. Places ascend; neighbours of one height share a step."""
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
    """The y coordinate of the top of a bar. A run without a duration is half as high as the longest run."""
    share = 0.5 if duration_ms is None or not longest_ms else duration_ms / longest_ms
    return _BASE - max(2, round(share * _BASE))


def _with_gaps(runs: Sequence[Bar], missed: Iterable[int]) -> list[Bar | None]:
    """`runs` with None for each missed run."""
    marks: list[Bar | None] = []
    before = list(missed) or [0] * len(runs)
    for gaps, run in zip(before, runs, strict=False):
        marks += [*[None] * min(_DRAWN_GAPS, gaps), run]
    return marks + [None] * min(_DRAWN_GAPS, sum(before[len(runs) :]))
