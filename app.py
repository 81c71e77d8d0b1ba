"""The WSGI application ``app``. ``python app.py`` is the same as ``obs serve``."""

from obs import create_app

if __name__ == "__main__":
    from obs.cli import main

    main(["serve"])
else:
    app = create_app()
