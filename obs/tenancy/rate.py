"""Rate limits, counted in this process for each minute of the clock."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from flask import Response, after_this_request

from obs.errors import ServiceError
from obs.server.middleware import client_network
from obs.times import MINUTE_MS

_MOST_SUBJECTS = 10_000


class PerMinute:
    """Counts what each subject does in a minute, and forgets the subjects that were idle for longest. Thread-safe."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()  # the minute, and the count in it
        self._lock = threading.Lock()

    def used(self, subject: Hashable, now_ms: int) -> int:
        minute, count = self._counts.get(subject, (0, 0))
        return count if minute == now_ms // MINUTE_MS else 0

    def add(self, subject: Hashable, count: int, now_ms: int) -> int:
        """Add to the count of `subject` in this minute, and return it."""
        with self._lock:
            used = self.used(subject, now_ms) + count
            self._counts[subject] = now_ms // MINUTE_MS, used
            self._counts.move_to_end(subject)
            if len(self._counts) > _MOST_SUBJECTS:
                self._counts.popitem(last=False)
        return used

    def take(self, subject: Hashable, limit: int, now_ms: int) -> None:
        """`count` the current request of Flask, and add the headers to its response."""
        headers = self.count(subject, limit, now_ms, "requests")

        @after_this_request
        def add_headers(response: Response) -> Response:
            response.headers.update(headers)
            return response

    def count(self, subject: Hashable, limit: int, now_ms: int, what: str) -> Mapping[str, str]:
        """Count `subject`, which is allowed `limit` times per minute; returns the ``RateLimit-*`` headers.

        Raises ServiceError (429) with Retry-After when the limit is reached. `what` is what it limits.
        """
        used, seconds = self.add(subject, 1, now_ms), seconds_left(now_ms)
        headers = {
            "RateLimit-Limit": str(limit),
            "RateLimit-Remaining": str(max(0, limit - used)),
            "RateLimit-Reset": str(seconds),
        }
        if used > limit:
            raise ServiceError(
                "rate_limited",
                f"The limit is {limit} {what} per minute.",
                hint=f"Try again in {seconds} s.",
                headers={**headers, "Retry-After": str(seconds)},
            )
        return headers


def seconds_left(now_ms: int) -> int:
    """In how many seconds the next minute begins."""
    return math.ceil((MINUTE_MS - now_ms % MINUTE_MS) / 1000)


def counter_of_failures(limit: int) -> Callable[[Mapping[str, Any], int], object]:
    """The function to call for a secret that is wrong. It raises ServiceError (429) after too many from one client."""
    rate, what = PerMinute(), "wrong keys and sign-in links from one address"
    return lambda environ, now_ms: rate.count(client_network(environ), limit, now_ms, what)
