"""Every command that the README and the docs print works as it is printed, in a new instance with a real server.

A command is an indented block, or a fenced one marked ``sh``. A block marked ``crontab`` is a crontab. A block that is
neither has another mark, such as ``json``.

The commands of a page run in one shell, top to bottom, so a command can use the variables that an earlier one has set.
The text is not changed: curl is told in its configuration file to connect to the port of the test's server, and so is
the client before the lines of a crontab run.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.served import Service, free_port

pytestmark = pytest.mark.curl
ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")))
PRINTED_ADDRESS = "127.0.0.1:8080"
INSTALL_AND_SERVE = (
    "python3 -m venv .venv && .venv/bin/pip install --require-hashes -r requirements.lock"
    " && .venv/bin/pip install --no-deps -e . && .venv/bin/obs serve"
)
DEMO = ".venv/bin/obs demo"
VERIFY = (
    'test "$( (printf \'%s.\' "$t"; cat body) | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d \' \' -f 1)" = "$v1"'
)
NOT_RUN = {
    VERIFY: "needs a signed request: tests/alerts/test_examples.py runs it",
    INSTALL_AND_SERVE: "takes a minute: test_the_readme_works_in_a_new_checkout runs it",
    DEMO: "takes a quarter of a minute: test_the_readme_works_in_a_new_checkout runs it",
    "python3 -m venv .venv && .venv/bin/pip install --require-hashes -r requirements-test.lock"
    " && .venv/bin/pip install --no-deps -e . && .venv/bin/pytest": "runs this test: .ci/run runs it",
    "sqlite3 instance/control.db"
    " \"SELECT slug, datetime(deleted_at / 1000, 'unixepoch') FROM deleted_organizations\"": "needs sqlite3",
    **dict.fromkeys(
        (
            "sudo useradd --system --home-dir /var/lib/obs --shell /usr/sbin/nologin obs",
            "cd /opt/obs",
            "sudo python3 -m venv .venv",
            "sudo .venv/bin/pip install -r requirements.lock",
            "sudo .venv/bin/pip install --no-deps .",
            "sudo cp deploy/obs.socket deploy/obs.service /etc/systemd/system/",
            "sudo systemctl daemon-reload",
            "sudo systemctl enable --now obs.socket obs.service",
            "sudo -u obs env OBS_INSTANCE=/var/lib/obs /opt/obs/.venv/bin/obs org list",
            "sudo git pull",
            "sudo git checkout COMMIT",
            "sudo systemctl reload obs",
            "sudo systemctl disable --now obs.socket obs.service",
            "sudo rm -r /etc/systemd/system/obs.socket /etc/systemd/system/obs.service /opt/obs",
        ),
        "installs the service on the machine, or removes it",
    ),
    "podman build -f deploy/Containerfile -t obs .": "needs podman and the network",
    "podman compose -f deploy/compose.yaml up -d": "needs podman and the network",
    **dict.fromkeys(
        (
            "/opt/obs/.venv/bin/obs backup /mnt/nas/obs --keep 7 --instance /var/lib/obs",
            "obs backup --org acme /mnt/nas/acme.db",
            "obs backup /var/backups/obs --keep 2 && restic backup --exclude '.obs-*.partial' /var/backups/obs",
            "obs restore /mnt/nas/obs/obs-2026-11-20T031700Z --instance /var/lib/obs",
            "obs restore /mnt/nas/obs/obs-2026-11-20T031700Z --org acme",
            "obs restore /mnt/nas/obs/obs-2026-11-20T031700Z --org acme --as acme-before",
            "obs restore /mnt/nas/obs/obs-2026-11-20T031700Z --instance /tmp/restored",
            "obs check --instance /tmp/restored",
            "obs serve --instance /tmp/restored --port 8099",
            "obs export acme /tmp/acme",
            "obs import export /tmp/acme --org acme-copy",
        ),
        "names folders of a real machine: the tests of backups run these commands elsewhere",
    ),
}
"""Commands that are not run here, each with the reason. Everything else that a page prints is run."""
PROGRAMS = {"sh", "curl", "obs", ".venv/bin/obs", "echo", "umask", "date", "mkdir", "chmod", "printf"}
"""The programs that a printed command may start here. To allow another one, make sure that it changes no machine."""
OTHER_KINDS = {"http", "ini", "json", "nginx", "python", "sql", "text", "yaml"}
QUIET_CURL = "curl -fsS -m 10 --retry 5 --retry-connrefused -o /dev/null"
JOBS = {"certbot": "exit 0", "restic": "echo copied; exit 3", "rsync": "exit 0"}
"""What the jobs in the printed crontabs do here."""


class Block(NamedTuple):
    kind: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of code of a page."""
    found: list[Block] = []
    fence: str | None = None
    lines: list[str] = []
    for line in [*(ROOT / page).read_text().splitlines(), "end"]:
        if fence is not None:
            if line.strip() == "```":
                found.append(Block(fence, "\n".join(lines)))
                fence, lines = None, []
            else:
                lines.append(line)
        elif line.startswith("    "):
            lines.append(line[4:])
        elif line or not lines:
            if lines:
                found.append(Block("sh", "\n".join(lines)))
            fence, lines = (line.removeprefix("```") if line.startswith("```") else None), []
    return found


def commands(text: str) -> list[str]:
    """The commands of a block. A command goes on after a backslash at the end of a line, and up to a complete one."""
    found: list[str] = []
    waiting: list[str] = []
    for line in text.splitlines():
        if not waiting and (not line or line.startswith("#")):
            continue
        waiting.append(line)
        command = "\n".join(waiting)
        if not line.endswith("\\") and subprocess.run(["sh", "-n", "-c", command], capture_output=True).returncode == 0:
            found.append(command)
            waiting = []
    assert not waiting, f"not a complete command: {waiting}"
    return found


def programs(command: str) -> set[str]:
    """The programs that a command starts."""
    bare = re.sub(r"'[^']*'", "''", command.replace("\\\n", " "))
    bare = re.sub(r'"[^"$]*"', '""', bare)
    words = re.findall(r"""(?:^|[|;&(]|\$\()\s*(?:\w+=(?!\$\()\S*\s+)*([\w./~-]+)(?!\S*=)""", bare, re.M)
    return {word for word in words if "=" not in word}


class Cron(NamedTuple):
    """A line of a crontab: what cron passes to the shell, and to its standard input."""

    command: str
    stdin: str


def crontab(text: str) -> tuple[dict[str, str], list[Cron]]:
    """The settings and the commands of a crontab, read as cron does it (crontab(5))."""
    settings: dict[str, str] = {}
    lines: list[Cron] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        setting = re.match(r"(\w+)\s*=\s*(.*)", line)
        if setting:
            settings[setting[1]] = setting[2]
            continue
        command = line.split(maxsplit=5)[5]
        # The first percent sign without a backslash ends the command; each further one is a new line of its input.
        command, *stdin = re.split(r"(?<!\\)%", command)
        lines.append(Cron(command.replace(r"\%", "%"), "\n".join(stdin)))
    return settings, lines


class Place:
    """A folder to run the commands of a page in, with a server on a new instance."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self.folder = folder
        self.service = Service(folder / "instance", free_port())
        self.home = folder / "home"
        self.jobs = folder / "jobs"
        for new in (self.home, self.jobs):
            new.mkdir()
        address = f"127.0.0.1:{self.service.port}"
        (self.home / ".curlrc").write_text(f'connect-to = "{PRINTED_ADDRESS}:{address}"\n')
        for name, does in JOBS.items():
            (self.jobs / name).write_text(f"#!/bin/sh\n{does}\n")
            (self.jobs / name).chmod(0o700)
        self.path = f"{self.jobs}:{venv / 'bin'}:/usr/bin:/bin"

    def run(self, printed: list[str]) -> str:
        """Run commands in one shell; returns what they print. The first one that fails fails the test."""
        checked = (f"{command}\n[ $? = 0 ] || {{ echo 'the last command failed' >&2; exit 1; }}" for command in printed)
        done = subprocess.run(
            ["sh", "-x"],
            input="\n".join(checked),
            cwd=self.folder,
            env={**self.environment(), "OBS_INSTANCE": str(self.service.instance)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert '"error":' not in done.stdout, done.stdout
        return done.stdout

    def environment(self) -> dict[str, str]:
        """As cron sets it for a user."""
        return {"HOME": str(self.home), "LOGNAME": "someone", "SHELL": "/bin/sh", "PATH": self.path}

    def as_cron(self, text: str) -> None:
        """Run each line of a crontab once, as cron does it. Cron mails what it prints, so it has to be quiet."""
        settings, lines = crontab(text)
        assert lines
        configured = self.home / ".config" / "obs.toml"
        if configured.exists():
            configured.write_text(configured.read_text().replace(PRINTED_ADDRESS, f"127.0.0.1:{self.service.port}"))
        for line in (line for line in lines if line.command not in NOT_RUN):
            done = subprocess.run(
                ["sh", "-c", line.command],
                input=line.stdin,
                cwd=self.home,
                env={**self.environment(), **settings},
                capture_output=True,
                text=True,
            )
            assert (done.stdout, done.stderr) == ("", ""), line
            assert done.returncode in (0, 3), line  # that of the job

    def jobs_seen(self) -> dict[str, str]:
        """The jobs of the organization `default`, each with its last outcome."""
        key = self.service.command("key", "create", "default", "--label", "test", "--scope", "query:read")
        status, body = self.service.get("/api/v1/jobs", key)
        while status == 401:  # a new key is valid within a second
            status, body = self.service.get("/api/v1/jobs", key)
        return {job["name"]: job["last_outcome"] for job in json.loads(body)["jobs"]}


@contextmanager
def started(place: Place) -> Iterator[Place]:
    place.service.start()
    try:
        yield place
    finally:
        place.service.kill()


def printed_commands(page: str) -> list[str]:
    return [command for block in blocks(page) if block.kind == "sh" for command in commands(block.text)]


def crontabs(page: str) -> list[str]:
    return [block.text for block in blocks(page) if block.kind == "crontab"]


WITH_COMMANDS = [page for page in PAGES if printed_commands(page)]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    assert {block.kind for block in blocks(page)} <= {"sh", "crontab", *OTHER_KINDS}


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_every_command_is_run_or_listed_with_a_reason(page: str) -> None:
    for command in printed_commands(page):
        assert command in NOT_RUN or programs(command) <= PROGRAMS, f"{command}: {programs(command) - PROGRAMS}"


def test_no_command_is_listed_that_is_not_printed() -> None:
    in_crontabs = {line.command for page in PAGES for text in crontabs(page) for line in crontab(text)[1]}
    assert set(NOT_RUN) <= in_crontabs.union(*map(printed_commands, PAGES))


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_page_work_as_printed(page: str, tmp_path: Path) -> None:
    to_run = [command for command in printed_commands(page) if command not in NOT_RUN]
    if not to_run:
        return
    assert all(programs(command) <= PROGRAMS for command in to_run)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with started(Place(tmp_path, Path(sys.prefix))) as place:
        place.run(to_run)
        for text in crontabs(page):
            place.as_cron(text)
        if page == "README.md":
            assert place.jobs_seen() == {"certs": "success", "photos": "failed"}
        if page == "docs/heartbeats.md":
            assert place.jobs_seen() == dict.fromkeys(("nas/backup", "nas/sync", "nas/trim"), "success")


@pytest.mark.parametrize("text", [text for page in PAGES for text in crontabs(page)])
def test_a_crontab_is_quiet_retries_and_uses_no_fixed_file(text: str) -> None:
    assert text.count("curl ") == text.count(QUIET_CURL)
    assert "/tmp" not in text
    assert all(line.stdin == "" for line in crontab(text)[1])


def test_a_percent_sign_in_a_crontab_is_read_as_cron_does() -> None:
    _, lines = crontab(r"0 2 * * * date +\%s; cat%one%two")
    assert lines == [Cron("date +%s; cat", "one\ntwo")]


@pytest.mark.slow
def test_the_readme_works_in_a_new_checkout(tmp_path: Path) -> None:
    """All of the README, the installation included, in a copy of the files that git has."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.splitlines():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    place = Place(tmp_path, tmp_path / ".venv")
    printed = printed_commands("README.md")
    assert printed[0] == INSTALL_AND_SERVE
    with place.service.log.open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", printed[0]],
            cwd=tmp_path,
            env={**place.environment(), "OBS_PORT": str(place.service.port)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    place.service.process = process
    try:
        while "Send a first heartbeat" not in place.service.logged():
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"ended with {process.wait(timeout=0.2)}: {place.service.logged()[-2000:]}")
        place.service.wait_until_ready()
        place.run([command for command in printed[1:] if command not in NOT_RUN or command == DEMO])
        for text in crontabs("README.md"):
            place.as_cron(text)
        assert place.jobs_seen() == {"certs": "success", "photos": "failed"}
    finally:
        place.service.kill()
