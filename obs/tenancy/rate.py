"""Rate limits, counted in this process over the last minute."""

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, after_this_request

from obs.errors import ServiceError
from obs.server.middleware import client_network
from obs.times import MINUTE_MS

_MOST_SUBJECTS = 10_000


class PerMinute:
    """Counts what each subject did in the last minute, and forgets the subjects that were idle for longest.

    A clock that is set back limits nobody: what happened in the future does not count. Thread-safe.
    """

    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[int]] = OrderedDict()
        self._lock = threading.Lock()

    def used(self, subject: str, now_ms: int) -> int:
        with self._lock:
            return len(self._recent(subject, now_ms))

    def take(self, subject: str, limit: int, now_ms: int) -> None:
        """`count` the current request of Flask, and add the headers to its response."""
        headers = self.count(subject, limit, now_ms, "requests")

        @after_this_request
        def add_headers(response: Response) -> Response:
            response.headers.update(headers)
            return response

    def count(self, subject: str, limit: int, now_ms: int, what: str) -> Mapping[str, str]:
        """Count `subject`, which is allowed `limit` times per minute; returns the ``RateLimit-*`` headers.

        Raises ServiceError (429) with Retry-After when the limit is reached. `what` is what it limits.
        """
        with self._lock:
            times = self._recent(subject, now_ms)
            if allowed := len(times) < limit:
                times.append(now_ms)
            used, seconds = len(times), max(1, math.ceil((times[0] + MINUTE_MS - now_ms) / 1000))
        headers = {
            "RateLimit-Limit": str(limit),
            "RateLimit-Remaining": str(max(0, limit - used)),
            "RateLimit-Reset": str(seconds),
        }
        if not allowed:
            raise ServiceError(
                "rate_limited",
                f"The limit is {limit} {what} per minute.",
                hint=f"Try again in {seconds} s.",
                headers={**headers, "Retry-After": str(seconds)},
            )
        return headers

    def _recent(self, subject: str, now_ms: int) -> deque[int]:
        times = self._times.setdefault(subject, deque())  # oldest first
        self._times.move_to_end(subject)
        if len(self._times) > _MOST_SUBJECTS:
            self._times.popitem(last=False)
        while times and (times[0] <= now_ms - MINUTE_MS or times[-1] > now_ms):
            times.popleft()
        return times


def counter_of_failures(limit: int) -> Callable[[Mapping[str, Any], int], object]:
    """The function to call for a secret that is wrong. It raises ServiceError (429) after too many from one client."""
    rate, what = PerMinute(), "wrong keys and sign-in links from one address"
    return lambda environ, now_ms: rate.count(client_network(environ), limit, now_ms, what)
