"""The HTTP routes of the heartbeat area: heartbeats in two forms, and jobs and runs."""

from werkzeug.routing import BaseConverter

from obs.heartbeat.schemas import JOB_NAME


class JobNameConverter(BaseConverter):
    """A job's name in a path: anything, slashes and an empty text too; what is no name is refused with its reason."""

    regex = "(?s:.*?)"
    part_isolating = False
    weight = 300
    openapi = {"type": "string", **JOB_NAME}  # noqa: RUF012
