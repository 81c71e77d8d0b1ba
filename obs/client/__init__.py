"""The client: runs commands and reports them. It imports only the standard library, and runs on Python 3.9 or later.

The service offers the package as a single file at ``/client/obs``, in which it is called `obs_client`.
"""

from .monitor import monitor

__all__ = ["monitor"]
