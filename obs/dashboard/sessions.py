"""Sessions for pages only: the API has keys, and a heartbeat should not pay for reading and signing cookies."""

from flask import Flask, Request, Response
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface, SessionMixin


class PageSessions(SecureCookieSessionInterface):
    """Flask's signed cookies, except under ``/api/``, where the session is always empty and never sent."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if request.path.startswith("/api/"):
            return SecureCookieSession()
        return super().open_session(app, request)

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        if session.accessed or session.modified:
            super().save_session(app, session, response)
