"""The WSGI entry: ``app``. ``python app.py`` serves, as ``obs serve`` does."""

from obs import create_app

if __name__ == "__main__":
    from obs.cli import main

    main(["serve"])
else:
    app = create_app()
