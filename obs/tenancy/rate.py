"""How often an organization may do something: counted in this process, over all its keys."""

import math
import time

from flask import after_this_request
from flask.wrappers import Response
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from obs.errors import ServiceError


class PerMinute:
    """Counts requests of each organization in the last minute. Safe to use from any thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def used(self, org: str, most: int) -> int:
        """How many requests of `org` were counted in the last minute, of which `most` are allowed."""
        _, remaining = self._limiter.get_window_stats(RateLimitItemPerMinute(most), self._what, org)
        return most - max(0, remaining)

    def take(self, org: str, most: int) -> None:
        """Count one request of `org`, of which `most` are allowed in a minute; within a request.

        The answer gets the ``RateLimit-*`` headers. Raises ServiceError (429) with Retry-After.
        """
        item = RateLimitItemPerMinute(most)
        allowed = self._limiter.hit(item, self._what, org)
        reset, remaining = self._limiter.get_window_stats(item, self._what, org)
        if reset - time.time() > item.get_expiry() + 1:  # the clock was set back: all would be refused until then
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
                f"More than {most} requests in a minute.",
                hint=f"Wait {seconds} s.",
                headers={**headers, "Retry-After": str(seconds)},
            )

        @after_this_request
        def tell(response: Response) -> Response:
            response.headers.update(headers)
            return response
