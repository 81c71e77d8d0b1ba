"""Rate limits per organization, counted in this process over all keys of the organization."""

import math
import time

from flask import after_this_request
from flask.wrappers import Response
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from obs.errors import ServiceError
from obs.storage.org import Org


class PerMinute:
    """Counts the requests of each organization in the last minute. Safe to use from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def used(self, org: Org, limit: int) -> int:
        """The number of requests of `org` in the last minute, out of `limit` allowed."""
        _, remaining = self._limiter.get_window_stats(RateLimitItemPerMinute(limit), self._name, org.file_name)
        return limit - max(0, remaining)

    def take(self, org: Org, limit: int) -> None:
        """Count the current request of `org`, which may send `limit` requests per minute.

        Adds the ``RateLimit-*`` headers to the response. Raises ServiceError (429) with Retry-After.
        """
        item = RateLimitItemPerMinute(limit)
        allowed = self._limiter.hit(item, self._name, org.file_name)
        reset, remaining = self._limiter.get_window_stats(item, self._name, org.file_name)
        if reset - time.time() > item.get_expiry() + 1:
            # The clock was set back. Without a reset, every request would be rejected until the old time is reached.
            self._limiter.storage.reset()
            allowed = self._limiter.hit(item, self._name, org.file_name)
            reset, remaining = self._limiter.get_window_stats(item, self._name, org.file_name)
        seconds = max(1, math.ceil(reset - time.time()))
        headers = {
            "RateLimit-Limit": str(limit),
            "RateLimit-Remaining": str(max(0, remaining)),
            "RateLimit-Reset": str(seconds),
        }
        if not allowed:
            raise ServiceError(
                "rate_limited",
                f"The limit is {limit} requests per minute.",
                hint=f"Try again in {seconds} s.",
                headers={**headers, "Retry-After": str(seconds)},
            )

        @after_this_request
        def add_headers(response: Response) -> Response:
            response.headers.update(headers)
            return response
