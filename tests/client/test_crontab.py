"""``obs crontab``: what cron runs stays the same, and is reported."""

import os
import pty
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.client.conftest import REFUSING, Machine

Runs = Callable[[str], list[dict[str, Any]]]
HOST = os.uname().nodename.partition(".")[0]
STUB = """#!/bin/sh
case $1 in
-l) cat "$HOME/tab" 2>/dev/null || { echo "no crontab for user" >&2; exit 1; } ;;
-) cat >"$HOME/new" && if grep -q REFUSE "$HOME/new"; then exit 1; fi && mv "$HOME/new" "$HOME/tab" ;;
*) exit 2 ;;
esac
"""


class Tab:
    """The crontab of the user of a machine, with a `crontab` that keeps it in a file."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.path = machine, machine.home / "tab"
        programs = machine.home / "bin"
        programs.mkdir()
        (programs / "crontab").write_text(STUB)
        (programs / "crontab").chmod(0o755)
        (machine.home / ".config").mkdir()
        (machine.home / ".config" / "obs.toml").write_text(f'url = "{machine.url}"\nkey = "{machine.key}"\n')
        path = f"{programs}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "HOME": str(machine.home), "LANG": "C.UTF-8"}

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def obs(self, *options: str, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
        # Started by its path, as a user does, so that it finds this path for the crontab.
        program = [str(self.machine.home / "obs"), "crontab", *options]
        return self.machine.obs(**{"args": program, "env": self.environment, **kwargs})

    def shown(self, text: str) -> list[str]:
        self.write(text)
        done = self.obs()
        assert (done.returncode, done.stderr) == (0, b"")
        assert self.path.read_text() == text
        return done.stdout.decode().replace(f"{self.machine.home}/", "~/").splitlines()

    def as_cron(self, line: str, folder: Path, shell: str = "/bin/sh") -> tuple[int, bytes, dict[str, bytes]]:
        """Run a line as cron does it; returns the exit code, the output, and the files that it has written."""
        command, stdin = cron_command(line.split(maxsplit=5)[5])
        done = subprocess.run(
            [shell, "-c", command], input=stdin.encode(), cwd=folder, env=self.environment, stdout=-1, stderr=-1
        )
        return done.returncode, done.stdout, {path.name: path.read_bytes() for path in folder.iterdir()}


def cron_command(text: str) -> tuple[str, str]:
    """What cron passes to the shell and to its standard input: do_command.c of Vixie cron, as in Debian."""
    command, is_escaped = "", False
    for place, one in enumerate(text):
        if is_escaped:
            command = (command[:-1] if one in "%\\" else command) + one
            is_escaped = False
        elif one == "%":
            return command, text[place + 1 :].replace("\\%", "\0").replace("%", "\n").replace("\0", "%") + "\n"
        else:
            command += one
            is_escaped = one == "\\"
    return command, ""


@pytest.fixture
def tab(machine: Machine) -> Tab:
    return Tab(machine)


WRAPPED = {
    "ls /photos": "-- ls /photos",
    "/bin/ls -l '/a b'  \"$HOME\" *.txt": "-- /bin/ls -l '/a b'  \"$HOME\" *.txt",
    "ls >/dev/null 2>&1": "-- ls >/dev/null 2>&1",
    "ls >> log-$HOME.txt": "-- ls >> log-$HOME.txt",
    r"cat%one%two\%": r"-- cat%one%two\%",
    r"date +\%F": r"-- date +\%F",
    "ls | wc -l": "-- /bin/sh -c 'ls | wc -l'",
    "cd /srv && ./sync": "-- /bin/sh -c 'cd /srv && ./sync'",
    "ls 'a' ; date": "-- /bin/sh -c 'ls '\"'\"'a'\"'\"' ; date'",
    r"ls | date +\%F%in%put": r"-- /bin/sh -c 'ls | date +\%F'%in%put",
    "A=1 ls": "-- /bin/sh -c 'A=1 ls'",
    "echo hi": "-- /bin/sh -c 'echo hi'",
    "cd": "-- /bin/sh -c 'cd'",
    "ls < in": "-- /bin/sh -c 'ls < in'",
    "ls &": "-- /bin/sh -c 'ls &'",
    "(ls)": "-- /bin/sh -c '(ls)'",
    "program-that-is-not-there": "-- /bin/sh -c 'program-that-is-not-there'",
}


@pytest.mark.parametrize("command", list(WRAPPED))
def test_a_command_is_wrapped_in_a_shell_only_where_it_needs_one(tab: Tab, command: str) -> None:
    (line,) = tab.shown(f"0 3 * * *  {command}\n")
    assert line.startswith("0 3 * * *  ~/obs run ")
    assert line.partition(" -- ")[2] == WRAPPED[command].removeprefix("-- ")


def test_only_commands_are_wrapped(tab: Tab) -> None:
    same = [
        "# 0 3 * * * ls",
        "  # comment",
        "",
        "MAILTO=me@example.com",
        " A = b c",
        "'B' = \"* * * * * ls\"",
        "0 3 * * *",
        "*/5 * * * * /usr/local/bin/obs run photos -- ls",
        "*/5 * * * * cd /x && obs run photos --timeout 2h -- ls",
    ]
    jobs = ["@daily ls", "@reboot\tls", "  */5 1-5 * jan mon-fri  ls", "-5 * * * * ls", "0\t3\t*\t*\t*\tls"]
    shown = tab.shown("\n".join([*same, *jobs]) + "\n")
    assert shown[: len(same)] == same
    assert [line.partition("~/obs run ")[0] + "ls" for line in shown[len(same) :]] == jobs
    assert all(line.endswith("-- ls") for line in shown[len(same) :])


def test_the_shell_is_that_of_the_crontab(tab: Tab) -> None:
    lines = tab.shown("0 1 * * * echo a\nSHELL=/bin/bash\n0 2 * * * echo b\n0 3 * * * ls\n")
    assert "-- /bin/sh -c 'echo a'" in lines[0]
    assert "-- /bin/bash -c 'echo b'" in lines[2]
    assert lines[3].endswith("-- ls")


NAMES = {
    "restic backup /photos": "restic-backup",
    "/usr/local/bin/backup.sh": "backup",
    "/usr/local/bin/backup.sh --quiet photos >> /var/log/backup.log 2>&1": "backup-photos",
    "cd /srv/app && python3 /opt/sync.py --all 12": "app-sync",
    "rsync -a /home/me/photos/ nas:/data": "rsync-photos",
    "nice -n 19 flock -n /tmp/x.lock certbot renew -q": "certbot-renew",
    "curl -fsS https://example.com/feed.xml | gzip > feed.gz": "curl-feed.xml",
    "'/opt/my tools/run' \"über\"": "my-run",
    "true": "true",
    "[ 1 ]": "job",
}


@pytest.mark.parametrize("command", list(NAMES))
def test_names_tell_what_the_command_does(tab: Tab, command: str) -> None:
    (line,) = tab.shown(f"@daily {command}\n")
    name = line.split()[3].strip("'")
    assert name == f"{HOST}/{NAMES[command]}"


def test_names_are_unique(tab: Tab) -> None:
    lines = tab.shown("@daily ls x\n@daily ls x -l\n@daily obs run " + HOST + "/ls-x-2 -- true\n@hourly ls x\n")
    assert [line.split(" run ")[1].split()[0].removeprefix(f"{HOST}/") for line in lines] == [
        "ls-x",
        "ls-x-3",
        "ls-x-2",
        "ls-x-4",
    ]


def test_what_is_written_runs_and_is_reported(tab: Tab, runs: Runs, tmp_path: Path) -> None:
    before = "# mine\n@daily cat%one%two\n@daily ls missing | wc -l; exit 4\n"
    tab.write(before)
    done = tab.obs("--write")
    assert done.returncode == 0, done.stderr
    (saved,) = tab.machine.home.glob("crontab-before-obs-*")
    assert saved.read_text() == before
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert str(saved).encode() in done.stderr
    written = tab.path.read_text()
    folder = tmp_path / "folder"
    folder.mkdir()
    outputs = [tab.as_cron(f"* * * * {line}", folder)[:2] for line in written.splitlines()[1:]]
    assert outputs == [(0, b"one\ntwo\n"), (4, b"0\n")]
    assert [run["exit_code"] for run in runs(f"{HOST}/cat")] == [0]
    assert [run["exit_code"] for run in runs(f"{HOST}/ls-missing")] == [4]
    again = tab.obs("--write")
    assert (again.returncode, again.stdout.decode()) == (0, written)
    assert tab.path.read_text() == written
    assert list(tab.machine.home.glob("crontab-before-obs-*")) == [saved]


def test_on_a_terminal_the_names_can_be_chosen(tab: Tab) -> None:
    tab.write("@daily ls /x\n@daily ls /y\n")
    controller, terminal = pty.openpty()
    process = tab.machine.start(
        args=[str(tab.machine.home / "obs"), "crontab", "--write"], env=tab.environment, stdin=terminal
    )
    os.write(controller, b"my photos 50%\n\n")
    out, err = process.communicate(timeout=60)
    os.close(controller)
    os.close(terminal)
    assert process.returncode == 0, err
    assert f"ls /x\n  name of the job [{HOST}/ls-x]: ".encode() in out
    first, second = tab.path.read_text().splitlines()
    assert "obs run 'my photos 50\\%' -- ls /x" in first
    assert f"obs run {HOST}/ls-y -- ls /y" in second
    assert tab.shown(tab.path.read_text())[0].count("obs run") == 1


def test_nothing_is_written_where_cron_could_not_use_the_client(tab: Tab) -> None:
    for text, problem in (
        ("PATH=/nowhere\n@daily ls\n", "python3"),
        ("HOME=/nowhere\n@daily ls\n", "obs login"),
        ("@daily ls REFUSE\n", "refuses"),
    ):
        tab.write(text)
        done = tab.obs("--write")
        assert done.returncode == 1
        assert problem in done.stderr.decode()
        assert tab.path.read_text() == text


def test_without_a_crontab(tab: Tab) -> None:
    done = tab.obs()
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"obs: no crontab for user\n")
    tab.environment["PATH"] = str(Path(os.path.realpath("/usr/bin/env")).parent / "nowhere")
    done = tab.obs(args=[*tab.machine.program, "crontab"])
    assert done.returncode == 1
    assert done.stderr.startswith(b"obs: ")
    assert b"Traceback" not in done.stderr


PIECES = [
    *(
        "ls",
        "cat",
        "echo",
        "printf",
        "true",
        "false",
        "cd",
        "tr a b",
        "exit 3",
        "[ a = a ]",
        "A=1",
        "!",
        "-l",
        "a",
        "é",
    ),
    *("*", "~", "$HOME", "$(ls)", "`ls`", "{a,b}", "x=y", " ", " ", " ", "'", '"', "\\", "%", "\\%", "\\\\"),
    *("|", "&&", "||", ";", "(", ")", ">out", ">>out", "<out", "2>&1", "#"),
]


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), st.sampled_from(["/bin/sh", "/bin/bash"]))
def test_a_wrapped_line_does_what_the_line_did(tab: Tab, command: str, shell: str) -> None:
    program = "ls " if re.match(r"\s*(%|\\?$)", command) else ""
    original = f"* * * * * {program}{command}"
    tab.machine.url = REFUSING
    (_, line) = tab.shown(f"SHELL={shell}\n{original}\n")
    assert line != original
    results = []
    for one in (original, line.replace("~/obs run", f"{tab.machine.home}/obs run", 1)):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a").write_text("text\n")
            results.append(tab.as_cron(one, Path(folder), shell))
    assert results[0] == results[1]
