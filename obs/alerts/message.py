"""What a message about incidents says, most important first: to be read on a phone at night. Pure."""

import html
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from obs.alerts.store.incidents import FALSE_ALARM, Incident
from obs.alerts.store.outbox import News
from obs.api import PLACE
from obs.times import duration_words, format_ms, format_optional_ms

STYLES = ("plain", "markdown", "html")
MOST_NAMED = 20  # incidents that a message lists
COLOURS = re.compile(r"\x1b\[[\d:;?]*[A-Za-z]")  # in the output of a job: for its terminal
_LONGEST_TITLE = 80
_PHRASES = {  # how a sentence continues after the job: when it begins, while it lasts, and when it is over
    "failed": ("failed at", "is still failing since", "was failing"),
    "overdue": ("has been overdue since", "is still overdue since", "was overdue"),
    "lost": ("lost a run at", "has not ended a run since it lost one at", "had lost a run"),
    "overrunning": ("has been overrunning since", "is still overrunning since", "was overrunning"),
    "alert": ("has been firing since", "is still firing since", "was firing"),
    "too_often": ("has run too often since", "still runs too often since", "ran too often"),
}
_HTML = {"text": "<p>{}</p>", "log": "<pre>{}</pre>", "link": '<p><a href="{0}">{0}</a></p>'}
At = Callable[[int], str]  # says a time in words


class Fact(NamedTuple):
    """What is known about one incident of a message."""

    one: Incident
    news: News
    link: str  # the address of the job's page
    is_ok: bool = True  # whether no incident of the job is open
    expected: str = ""  # what was expected, and why
    exit_code: int | None = None
    log: Sequence[str] = ()
    before: str = ""  # the last annotation before it
    missed: int = 0  # how many runs were missed
    often: int = 0  # how many such incidents began within a week; where the job flaps, within an hour


class Message(NamedTuple):
    title: str
    event: str
    blocks: Sequence[tuple[str, str]]  # each a kind (text, log or link) with its text; a link's text is its address
    incidents: Sequence[Mapping[str, Any]] = ()  # those of a webhook's payload

    def render(self, style: str) -> str:
        """The blocks that are not empty, in one of STYLES."""
        return "\n\n".join(_rendered(style, kind, text) for kind, text in self.blocks if text)


def _rendered(style: str, kind: str, text: str) -> str:
    if style == "html":
        return _HTML[kind].format(html.escape(text).replace("\n", "<br>"))
    if style == "plain":
        return textwrap.indent(text, "    ") if kind == "log" else text
    if kind == "log":
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return f"{fence}\n{text}\n{fence}"
    text = f"<{text}>" if kind == "link" else re.sub(r"([\\`*_{}\[\]()#+\-.!|<>~@])", r"\\\1", text)
    return text.replace("\n", "  \n")


def compose(facts: Sequence[Fact], silent: Mapping[str, int], zone: ZoneInfo, now_ms: int, overview: str) -> Message:
    """The message about some incidents, worst first.

    `silent` has the last heartbeat from each host whose jobs are all silent, `overview` the address of the jobs' page.
    """
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    where = f"Time zone: {zone.key}."

    def at(moment_ms: int) -> str:
        moment = datetime.fromtimestamp(moment_ms / 1000, zone)
        return f"{moment:%H:%M}" if moment.date() == today else f"{moment:%a} {moment.day} {moment:%b %H:%M}"

    sentences = iter(dict.fromkeys(_sentence(fact, at) for fact in facts))
    if len({fact.one.job for fact in facts}) == 1:
        title, rest = next(sentences), "\n".join(sentences)
        blocks = [*_details(facts[0], at), ("text", rest), ("text", where), ("link", facts[0].link)]
    else:
        title, causes = _summary(facts), list[tuple[str, str]]()
        for name in PLACE:
            if not causes and len(places := {getattr(fact.one, name) for fact in facts}) == 1 and None not in places:
                causes = [("text", f"All on {name} {places.pop()}.")]
        problems = Counter((one.host, one.kind.event, one.ended_at) for one, *_ in facts)
        for host, since in silent.items():
            if (count := problems[host, "overdue", None]) > 1:
                what = f"{count:,} jobs on host {host} have been silent since {at(since)}"
                title, causes = (what, []) if count == len(facts) else (title, causes)
                causes.append(("text", f"{what} (last heartbeat from the host)."))
        more = [f"and {len(facts) - MOST_NAMED:,} more"] if len(facts) > MOST_NAMED else []
        named = "\n".join([f"\N{BULLET} {sentence}" for sentence in islice(sentences, MOST_NAMED)] + more)
        blocks = [*causes, ("text", _before(facts)), ("text", named), ("text", where), ("link", overview)]
    over = (fact.one.ended_at is not None and fact.news is not News.FLAPPING for fact in facts)
    events = {"recovered" if is_over else fact.one.kind.event for fact, is_over in zip(facts, over, strict=True)}
    event = events.pop() if len(events) == 1 else "several"
    return Message(_shortened(title), event, blocks, [_payload(fact) for fact in facts])


def notice(text: str, link: str, event: str | None = None) -> Message:
    """A message that is not about incidents; the first line of `text` is its title."""
    title, _, rest = text.partition("\n")
    return Message(_shortened(title), event or "notice", [("text", rest or title), ("link", link)])


def _sentence(fact: Fact, at: At) -> str:
    one, (began, lasts, was) = fact.one, _PHRASES[fact.one.kind.event]
    note = "" if one.value is None else f" (value {one.value:.15g})"
    if one.kind.event == "failed" and fact.exit_code is not None:
        note = f" (exit code {fact.exit_code})"
    if fact.news is News.FLAPPING:
        return f"{one.subject} is flapping: {fact.often} incidents ({one.kind.event}) within an hour"
    if one.ended_at is None:
        return f"{one.subject} {began if fact.news is News.BEGAN else lasts} {at(one.started_at)}{note}"
    if fact.news is News.SETTLED:
        return f"{one.subject} has had no new incident ({one.kind.event}) for an hour"
    by_heartbeat = (one.heartbeat_at or 0) >= one.ended_at  # not by a pause, or another pin
    if fact.news is News.ENDED and fact.is_ok and by_heartbeat:
        return f"{one.subject} is OK again, after {duration_words(one.ended_at - one.started_at)}"
    note = " (a false alarm)" if one.verdict == FALSE_ALARM else note
    return f"{one.subject} {was} from {at(one.started_at)} to {at(one.ended_at)}{note}"


def _details(fact: Fact, at: At) -> list[tuple[str, str]]:
    """What a person needs to know about one incident."""
    one = fact.one
    place = ", ".join(f"{name} {value}" for name in PLACE if (value := getattr(one, name)))
    blocks = [("text", fact.expected), ("log", COLOURS.sub("", "\n".join(fact.log)))]
    if fact.news is News.ENDED and one.ended_at is not None:
        missed = f", and {fact.missed} run{'s were' if fact.missed > 1 else ' was'} missed" if fact.missed else ""
        was = f"It {_PHRASES[one.kind.event][2]} from {at(one.started_at)} to {at(one.ended_at)}{missed}."
        blocks = [("text", was)]
    if fact.news is News.BEGAN and fact.often > 1:
        blocks.append(("text", f"This happened {fact.often} times in the last 7 days."))
    return [*blocks, ("text", _before([fact])), ("text", f"On {place}." if place else "")]


def _before(facts: Sequence[Fact]) -> str:
    """The last annotation before incidents that have begun."""
    found = (fact.before for fact in facts if fact.before and fact.news is News.BEGAN)
    return next((f"Last annotation: {text}." for text in found), "")


def _summary(facts: Sequence[Fact]) -> str:
    """The title of a message about several incidents."""
    names = ", ".join(dict.fromkeys(fact.one.subject for fact in facts[:MOST_NAMED]))
    what = ", ".join(f"{count:,} {word}" for word, count in Counter(map(_what, facts)).items())
    return textwrap.shorten(f"{what}: {names}", _LONGEST_TITLE, placeholder=" …")


def _what(fact: Fact) -> str:
    if fact.news is News.FLAPPING:
        return "flapping"
    event = "ended" if fact.one.ended_at is not None else fact.one.kind.event
    return event.replace("_", " ").replace("alert", "firing")


def _payload(fact: Fact) -> dict[str, Any]:
    times = {"since": format_ms(fact.one.started_at), "ended_at": format_optional_ms(fact.one.ended_at)}
    return {"job": fact.one.job, "kind": fact.one.kind.event, **times, "link": fact.link, "log": list(fact.log)}


def _shortened(title: str) -> str:
    """A title of at most 80 characters: its beginning, and its end, which says what happened."""
    title = " ".join(title.split())
    return title if len(title) <= _LONGEST_TITLE else f"{title[:25]}…{title[-(_LONGEST_TITLE - 26) :]}"
