"""How an organization is identified wherever something is kept for it: in files, in memory, in credentials."""

from typing import NamedTuple


class Org(NamedTuple):
    """An organization: its name, and the id in the control file, which no other organization ever gets.

    An organization that is deleted and created again has the same slug and another id. As text, it is the slug.
    """

    slug: str
    id: int

    @property
    def file_name(self) -> str:
        """The name of its SQLite file. Slugs contain no dot."""
        return f"{self.slug}.{self.id}.db"

    def __str__(self) -> str:
        return self.slug
