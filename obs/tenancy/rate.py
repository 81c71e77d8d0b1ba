"""Rate limits per organization, counted in this process over all keys of the organization."""

import math
import time

from flask import after_this_request
from flask.wrappers import Response
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from obs.errors import ServiceError


class PerMinute:
    """Counts the requests of each organization in the last minute. Safe to use from any thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def used(self, org: str, most: int) -> int:
        """The number of requests of `org` in the last minute, out of `most` allowed."""
        _, remaining = self._limiter.get_window_stats(RateLimitItemPerMinute(most), self._what, org)
        return most - max(0, remaining)

    def take(self, org: str, most: int) -> None:
        """Count the current request against the limit of `org`: `most` requests per minute.

        Adds the ``RateLimit-*`` headers to the response. Raises ServiceError (429) with Retry-After.
        """
        item = RateLimitItemPerMinute(most)
        allowed = self._limiter.hit(item, self._what, org)
        reset, remaining = self._limiter.get_window_stats(item, self._what, org)
        if (
            reset - time.time() > item.get_expiry() + 1
        ):  # the clock was set back, and every request would be rejected until that time
            self._limiter.storage.reset()
            allowed = self._limiter.hit(item, self._what, org)
            reset, remaining = self._limiter.get_window_stats(item, self._what, org)
        seconds = max(1, math.ceil(reset - time.time()))
        headers = {
            "RateLimit-Limit": str(most),
            "RateLimit-Remaining": str(max(0, remaining)),
            "RateLimit-Reset": str(seconds),
        }
        if not allowed:
            raise ServiceError(
                "rate_limited",
                f"The limit is {most} requests per minute.",
                hint=f"Try again in {seconds} s.",
                headers={**headers, "Retry-After": str(seconds)},
            )

        @after_this_request
        def add_headers(response: Response) -> Response:
            response.headers.update(headers)
            return response
