"""The files in `deploy`, checked by the programs that read them. docs/deployment.md explains how to use them."""

import contextlib
import re
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.conftest import serving
from tests.server import free_port, wait_a_moment

pytestmark = pytest.mark.deploy
DEPLOY = Path(__file__).parent.parent / "deploy"
DOCS = DEPLOY.parent / "docs"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_unit_is_valid_and_has_few_privileges(tmp_path: Path) -> None:
    for name in ("obs.service", "obs.socket"):
        text = (DEPLOY / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/obs/.venv/bin/obs serve", "/bin/true"))
    assert run("systemd-analyze", "verify", tmp_path / "obs.service", tmp_path / "obs.socket") == ""
    report = run("systemd-analyze", "security", "--offline=true", "--no-pager", tmp_path / "obs.service")
    exposure = re.search(r"Overall exposure level for obs\.service: ([\d.]+)", report)
    assert exposure, report
    assert float(exposure[1]) <= 2.0


def test_the_configuration_of_nginx_is_valid(tmp_path: Path) -> None:
    run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-subj", "/CN=obs.example.org", "-keyout", tmp_path / "obs.key", "-out", tmp_path / "obs.crt"),
    )
    site = (DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/", f"{tmp_path}/")
    # `nginx -t` opens the addresses, which other programs may use.
    site = re.sub(r"(listen (?:\[::\]:)?)(80|443)\b", r"\g<1>18\2", site)
    path = tmp_path / "nginx.conf"
    path.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ {site} }}")
    assert "test is successful" in run("nginx", "-t", "-c", path)


def test_the_configuration_of_caddy_is_valid() -> None:
    printed = run("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
    assert "Valid configuration" in printed
    assert "not formatted" not in printed


def test_proxies_pass_on_pings_with_more_output_than_obs_takes_elsewhere() -> None:
    assert re.search(r"client_max_body_size 16m;", (DEPLOY / "nginx.conf").read_text())
    adapted = run("caddy", "adapt", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
    assert re.findall(r'"max_size":(\d+)', adapted) == ["16000000"]


def test_caddy_deletes_the_user_that_a_client_sends_before_authelia_names_one(tmp_path: Path) -> None:
    documented = re.search(r"```text\n(route \{.*?^\})\n```", (DOCS / "deployment.md").read_text(), re.S | re.M)
    assert documented is not None
    (tmp_path / "Caddyfile").write_text(f"http://127.0.0.1:18099 {{\n{documented[1]}\n}}\n")
    adapted = run("caddy", "adapt", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile")
    order = re.findall(r'"delete":\["(Remote-User|\*_\*)"\]|"dial":"127\.0\.0\.1:(\d+)"', adapted)
    assert order == [("Remote-User", ""), ("*_*", ""), ("", "9091"), ("", "8080")]


def test_a_client_of_caddy_cannot_choose_its_address(tmp_path: Path) -> None:
    received = Queue[list[tuple[str, str]]]()

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.put([(name.lower().replace("_", "-"), value) for name, value in self.headers.items()])
            self.send_response(204)
            self.end_headers()

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Recorder)) as url:
        front = f"http://127.0.0.1:{free_port()}"
        site = (DEPLOY / "Caddyfile").read_text().replace("127.0.0.1:8080", url.removeprefix("http://"))
        site = re.sub(r"^obs\.example\.org", front, site, flags=re.M)
        (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
        caddy = subprocess.Popen(("caddy", "run", "--config", tmp_path / "Caddyfile"), stderr=subprocess.DEVNULL)
        try:
            headers = {"X_Forwarded_For": "198.51.100.7", "X-Forwarded_For": "198.51.100.7", "X-Forwarded-For": "x"}
            for _ in range(200):
                with contextlib.suppress(URLError):
                    urlopen(Request(front, headers=headers))
                    break
                wait_a_moment()
        finally:
            caddy.terminate()
            caddy.wait()
    assert [value for name, value in received.get(timeout=1) if name == "x-forwarded-for"] == ["127.0.0.1"]
