"""The kinds of incidents: their numbers, words, order and titles. Pure."""

from enum import IntEnum


class IncidentKind(IntEnum):
    """The kind of an incident, the most severe first. The value is the number in the database.

    The name in lower case is the word in the API and in OQL.
    """

    FAILING = 1
    LOST = 2
    OVERDUE = 0
    OVERRUNNING = 3
    TOO_OFTEN = 4

    @property
    def word(self) -> str:
        """The word in the API and in OQL: ``too_often``."""
        return self.name.lower()

    def title(self, job: str) -> str:
        """The title of an incident of this kind: ``shop/sync-stock failing``."""
        return f"{job} {_TITLES[self]}"


_TITLES = {
    IncidentKind.FAILING: "failing",
    IncidentKind.LOST: "lost a run",
    IncidentKind.OVERDUE: "overdue",
    IncidentKind.OVERRUNNING: "overrunning",
    IncidentKind.TOO_OFTEN: "runs more often than expected",
}

KINDS = tuple(kind.word for kind in sorted(IncidentKind))
"""The words for the kinds, each at the index of its number."""
