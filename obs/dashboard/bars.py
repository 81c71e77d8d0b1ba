"""The last runs of a job as small bars: the height shows the duration, colour and foot show the result. Pure.

All runs with one result are a single path of steps on a grid with one column per run. The style sheet stretches the
path and cuts it into bars. This keeps a page with five hundred jobs of thirty bars each small.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from markupsafe import Markup

from obs.dashboard import schedules, wording
from obs.heartbeat.runs import PROBLEMS
from obs.heartbeat.store.jobs import Job

SHOWN = 30
_BASE, _FOOT = 9, 11
_DRAWN_GAPS = 3  # between two runs at most; the label has the exact number


class Bar(NamedTuple):
    """A run: its start, its status and its duration in milliseconds."""

    started_at: int
    status: str
    duration_ms: int | None


def of_job(job: Job, runs: tuple[Bar, ...], now_ms: int) -> Markup:
    """The last `runs` of a job, oldest first, with gaps where its schedule says that runs were missed."""
    due = schedules.due(job)
    if due is None or not runs:
        return draw(runs)
    counts = schedules.missed_before_each(tuple(run.started_at for run in runs), due)
    return draw(runs, (*counts, schedules.missed_until_now(job, now_ms)) if job.overdue else counts)


@lru_cache(maxsize=2048)  # most jobs have not changed since the last refresh
def draw(runs: tuple[Bar, ...], gaps: tuple[int, ...] = ()) -> Markup:
    """Draw runs, oldest first, as SVG.

    `gaps` has for each run how many runs were missed before it. If it is one longer than `runs`, its last number is
    how many have been missed since the last run.
    """
    marks = _with_gaps(runs, gaps)[-SHOWN:]
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
    counts = dict(Counter(run.status for run in runs).most_common())
    words = f"Last {len(runs)} runs: {wording.results(counts, sum(gaps))}" if runs else "No runs yet"
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(f'<svg role="img" aria-label="{words}">{"".join(drawn)}</svg>')  # noqa: S704


def _steps(tops: dict[int, int], base: int) -> str:
    """A path along `base` that rises to each top at its place. Places ascend; neighbours of one height share a step."""
    steps, end, height = "", -1, base
    for place, top in tops.items():
        if place != end:
            steps += (f"V{base}" if steps else "") + f"M{place} {base}"
            height = base
        steps += "h1" if top == height else f"V{top}h1"
        end, height = place + 1, top
    return f"{steps}V{base}"


def _top(duration_ms: int | None, longest_ms: int) -> int:
    """The y coordinate of the top of a bar. A run without a duration is half as high as the longest run."""
    share = 0.5 if duration_ms is None or not longest_ms else duration_ms / longest_ms
    return _BASE - max(2, round(share * _BASE))


def _with_gaps(runs: Sequence[Bar], gaps: Sequence[int]) -> list[Bar | None]:
    """`runs` with None for each missed run."""
    marks: list[Bar | None] = []
    for count, run in zip_longest(gaps, runs):
        marks += [None] * min(_DRAWN_GAPS, count or 0)
        marks += [run] if run is not None else []
    return marks
