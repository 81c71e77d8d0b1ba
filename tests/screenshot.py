"""Takes the screenshot in the README, from the demo: ``python -m tests.screenshot``."""

import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from tests.selection import find_chromium

PICTURE = Path(__file__).parent.parent / "docs" / "overview.png"


def main() -> None:
    command = [str(Path(sys.executable).with_name("obs"))]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with TemporaryDirectory() as folder:
        filled = subprocess.run([*command, "demo", "--instance", folder], check=True, capture_output=True, text=True)
        serve = [*command, "serve", "--instance", folder, "--port", port]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            next(line for line in server.stdout if "listens at" in line)
            try:
                take(f"http://127.0.0.1:{port}{urlsplit(filled.stdout.split()[-1]).path}")
            finally:
                server.terminate()


def take(link: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860}, locale="en-GB", color_scheme="light")
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.locator("#jobs").wait_for()
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
