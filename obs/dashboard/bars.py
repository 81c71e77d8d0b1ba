"""The last runs of a job as small bars: height is duration, colour and foot are the outcome. Pure.

A bar is a stroke of one path for each outcome, because five hundred jobs of thirty bars each must stay a small page.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

SHOWN = 30
_STEP, _TOP, _FOOT = 6, 2, 24
_WIDTH = SHOWN * _STEP
_MOST_GAPS = 3


class Bar(NamedTuple):
    """A run: its start, its outcome and how long it took; milliseconds."""

    started_at: int
    status: str
    duration_ms: int | None


@lru_cache(maxsize=2048)  # most jobs look as they did at the last refresh
def draw(runs: tuple[Bar, ...], interval_ms: int | None) -> Markup:
    """Runs, oldest first, with a gap where a run was due and did not come."""
    marks = _with_gaps(runs, interval_ms)[-SHOWN:]
    longest_ms = max((run.duration_ms or 0 for run in runs), default=0)
    paths: dict[str, list[str]] = {}
    for place, run in enumerate(marks, start=SHOWN - len(marks)):
        x = place * _STEP + 3
        if run is None:
            paths.setdefault("gap", []).append(f"M{x} {_FOOT}v-3")
            continue
        paths.setdefault(run.status, []).append(f"M{x} {_FOOT}V{_top(run.duration_ms, longest_ms)}")
        if run.status in ("failed", "lost"):
            paths.setdefault("foot", []).append(f"M{x} 26v3")
    drawn = "".join(f'<path class="bar-{status}" d="{"".join(steps)}"/>' for status, steps in paths.items())
    words = describe(runs, marks.count(None))
    # Nothing in here comes from a client: statuses are a fixed set, the rest are numbers.
    return Markup(f'<svg class="bars" viewBox="0 0 {_WIDTH} 30" role="img" aria-label="{words}">{drawn}</svg>')  # noqa: S704


def describe(runs: Sequence[Bar], missed: int) -> str:
    """The same in words: ``Last 30 runs: 28 success, 2 failed; 1 did not come``."""
    if not runs:
        return "No runs yet"
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), key=lambda item: -item[1]))
    return f"Last {len(runs)} runs: {told}" + (f"; {missed} did not come" if missed else "")


def _top(duration_ms: int | None, longest_ms: int) -> int:
    """Where a bar ends. A run without a duration is half as high as the longest."""
    share = 0.5 if duration_ms is None or not longest_ms else duration_ms / longest_ms
    return _FOOT - max(4, round(share * (_FOOT - _TOP)))


def _with_gaps(runs: Sequence[Bar], interval_ms: int | None) -> list[Bar | None]:
    """None stands for a run that did not come.

    A pause that the job has often is part of its schedule (a weekend), so only pauses longer than nine of ten count.
    """
    if interval_ms is None or len(runs) < 3:
        return list(runs)
    pauses = [later.started_at - earlier.started_at for earlier, later in pairwise(runs)]
    usual_ms = max(interval_ms, sorted(pauses)[int(len(pauses) * 0.85)])
    marks: list[Bar | None] = [runs[0]]
    for run, pause_ms in zip(runs[1:], pauses, strict=True):
        if pause_ms > 1.6 * usual_ms:
            marks += [None] * min(_MOST_GAPS, round(pause_ms / interval_ms) - 1)
        marks.append(run)
    return marks
