"""The WSGI application ``app``. ``python app.py`` is the same as ``obs serve``."""

from collections.abc import Iterable
from typing import Any

from obs import create_app
from obs.services import services

if __name__ == "__main__":
    from obs.cli import main

    main(["serve"])
else:
    app = create_app()
    answer = app.wsgi_app

    def start_and_answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Start the background tasks with the first request: after any fork, and not when the module is imported."""
        services(app).background.start()
        return answer(environ, start_response)

    app.wsgi_app = start_and_answer  # type: ignore[assignment,method-assign]
