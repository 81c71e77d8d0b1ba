"""The commands ``obs org``, ``obs key`` and ``obs sign-in``."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask import Flask

from obs import cli
from obs.tenancy import store
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS, MINUTE_MS
from tests.conftest import ACME, KeyClient
from tests.dashboard.conftest import Visitor
from tests.tenancy.conftest import Obs

PING = "/api/v1/heartbeat/backup/ping"


def test_a_key_created_on_an_empty_instance_works(obs: Obs, app: Flask, tenancy: Tenancy) -> None:
    organization = obs("org", "create", "acme")
    assert (organization.exit_code, organization.stdout) == (0, "")
    assert organization.stderr.startswith("Created organization acme.")
    created = obs("key", "create", "acme", "--label", "ci")
    assert created.exit_code == 0
    assert re.fullmatch(r"obs_acme_[0-9A-Za-z]{32}\n", created.stdout)
    assert created.stderr.startswith("Created key 1.")
    tenancy.keyring.reload()
    assert app.test_client().post(PING, headers={"X-API-Key": created.stdout.strip()}).status_code == 200


def test_organizations_are_listed_by_name(obs: Obs) -> None:
    for name in ("globex", "acme"):
        obs("org", "create", name)
    listed = obs("org", "list")
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == ["acme", "globex"]


@pytest.mark.parametrize(("setting", "is_told"), [("auto", True), ("0", False), ("1", False)])
def test_the_second_organization_is_told_what_it_changes(
    obs: Obs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, setting: str, *, is_told: bool
) -> None:
    monkeypatch.setenv("OBS_ALLOW_PRIVATE_TARGETS", setting)
    told = []
    for name in ("acme", "globex", "initech"):
        obs("org", "create", name)
        told.append([record.getMessage() for record in caplog.records])
        caplog.clear()
    reason = "Channels may send to private networks only with OBS_ALLOW_PRIVATE_TARGETS=1 from now on."
    assert told == [[], [reason] if is_told else [], []]


@pytest.mark.parametrize("name", ["", "-a", "Acme", "a_b", "a/b", "..", "a" * 64, "a b", "ä", "a\n"])
def test_an_invalid_organization_name_is_rejected(obs: Obs, tmp_path: Path, name: str) -> None:
    created = obs("org", "create", "--", name)
    assert created.exit_code == 1
    assert "Error:" in created.stderr
    assert obs("org", "list").stdout == ""
    assert not list((tmp_path / "instance").rglob("tenants/*.db"))


@pytest.mark.parametrize("name", ["a", "0", "a-", "a" * 63])
def test_valid_organization_names(obs: Obs, name: str) -> None:
    assert obs("org", "create", name).exit_code == 0


def test_creating_an_existing_organization_fails_and_changes_nothing(obs: Obs) -> None:
    obs("org", "create", "acme")
    key = obs("key", "create", "acme", "--label", "x").stdout
    again = obs("org", "create", "acme")
    assert (again.exit_code, again.stderr) == (1, "Error: The organization 'acme' already exists.\n")
    assert obs("key", "list", "acme").stdout.count("\n") == 1
    assert key


@pytest.mark.parametrize(
    "arguments",
    [
        ("org", "delete", "nobody", "--yes"),
        ("key", "create", "nobody", "--label", "x"),
        ("key", "list", "nobody"),
        ("sign-in", "nobody"),
    ],
)
def test_an_unknown_organization_is_an_error(obs: Obs, arguments: tuple[str, ...]) -> None:
    obs("org", "create", "acme")
    answer = obs(*arguments)
    assert answer.exit_code == 1
    assert "There is no organization 'nobody'. List them with: obs org list" in answer.stderr


def test_scopes_and_expiry_of_a_new_key(obs: Obs, tenancy: Tenancy) -> None:
    obs("org", "create", "acme")
    obs("key", "create", "acme", "--label", "all")
    obs("key", "create", "acme", "--label", "two", "--scope", "query:read", "--scope", "admin", "--scope", "admin")
    obs("key", "create", "acme", "--label", "brief", "--expires", "+30d")
    with tenancy.control.read() as db:
        everything, two, brief = store.keys_of(db, ACME)
    assert everything.scopes == ("heartbeat:write",)
    assert two.scopes == ("query:read", "admin")
    assert brief.expires_at is not None
    assert 0 <= brief.created_at - (brief.expires_at - 30 * DAY_MS) < MINUTE_MS  # the command reads the clock twice


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--label", "", "between 1 and 200"),
        ("--label", "x" * 201, "between 1 and 200"),
        ("--expires", "2020-01-01", "in the future"),
        ("--expires", "-1h", "in the future"),
        ("--expires", "soon", "ISO 8601"),
        ("--scope", "root", "root"),
    ],
)
def test_an_invalid_key_is_rejected(obs: Obs, option: str, value: str, problem: str) -> None:
    obs("org", "create", "acme")
    label = () if option == "--label" else ("--label", "x")
    created = obs("key", "create", "acme", *label, option, value)
    assert created.exit_code != 0
    assert problem in created.stderr
    assert created.stdout == ""
    assert obs("key", "list", "acme").stdout == ""


def test_keys_are_listed_with_their_state(obs: Obs, new_client: Callable[..., KeyClient], tenancy: Tenancy) -> None:
    new_client("acme", "query:read")
    obs("key", "create", "acme", "--label", "second")
    assert obs("key", "revoke", "2").exit_code == 0
    listed = [line.split("\t") for line in obs("key", "list", "acme").stdout.splitlines()]
    assert listed == [
        ["1", "test", "query:read", "valid", "never used"],
        ["2", "second", "heartbeat:write", "revoked", "never used"],
    ]
    with tenancy.control.read() as db:
        assert all(key not in str(listed) for key in map(str, db.execute("SELECT sha256 FROM api_keys").fetchall()))


def test_a_label_with_control_characters_is_listed_on_one_line(obs: Obs) -> None:
    obs("org", "create", "acme")
    obs("key", "create", "acme", "--label", "caf\u00e9 \x1b[2J\ttab\nline\u202e")
    (listed,) = obs("key", "list", "acme").stdout.splitlines()
    assert listed.split("\t")[1] == "caf\u00e9  [2J tab line "


def test_revoking_a_revoked_key_fails(obs: Obs) -> None:
    obs("org", "create", "acme")
    obs("key", "create", "acme", "--label", "x")
    first = obs("key", "revoke", "1")
    assert (first.exit_code, first.stdout, first.stderr) == (0, "", "Revoked key 1.\n")
    again = obs("key", "revoke", "1")
    assert (again.exit_code, again.stderr) == (1, "Error: There is no valid key with id 1.\n")


def test_deleting_asks_for_confirmation(obs: Obs, tmp_path: Path) -> None:
    obs("org", "create", "acme")
    assert obs("org", "delete", "acme", typed="n\n").exit_code == 1
    assert "acme" in obs("org", "list").stdout
    confirmed = obs("org", "delete", "acme", typed="y\n")
    assert (confirmed.exit_code, confirmed.stdout) == (0, "")
    assert confirmed.stderr.endswith("Deleted organization acme.\n")
    assert obs("org", "list").stdout == ""


def test_a_sign_in_link_works_once(obs: Obs, app: Flask) -> None:
    obs("org", "create", "acme")
    link = obs("sign-in", "acme").stdout.strip()
    assert link.startswith("http://127.0.0.1:8080/sign-in/")
    path = link.removeprefix("http://127.0.0.1:8080")
    visitor = Visitor(app)
    assert visitor.use_link(path.rpartition("/")[2]).status_code == 302
    assert visitor.get("/").status_code == 200
    assert app.test_client().get(path).status_code == 401


def test_the_option_decides_which_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before or after the command name; it takes precedence over OBS_INSTANCE."""
    monkeypatch.setenv("OBS_INSTANCE", str(tmp_path / "from the environment"))
    run = CliRunner().invoke
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert run(cli.main, ["org", "create", "e"]).exit_code == 0
    assert run(cli.main, ["--instance", before, "org", "create", "b"]).exit_code == 0
    assert run(cli.main, ["org", "create", "a", "--instance", after]).exit_code == 0
    assert run(cli.main, ["--instance", before, "org", "create", "a2", "--instance", after]).exit_code == 0
    created = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.db") if path.name != "control.db"}
    assert created == {
        "from the environment/tenants/e.1.db",
        "before/tenants/b.1.db",
        "after/tenants/a.1.db",
        "after/tenants/a2.2.db",
    }


@pytest.mark.parametrize("command", [("org", "list"), ("key", "list", "acme"), ("sign-in", "acme")])
def test_an_error_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    folder = tmp_path / "instance"
    folder.mkdir()
    (folder / "control.db").write_bytes(b"not a database at all" * 100)
    answer = CliRunner().invoke(cli.main, [*command, "--instance", str(folder)])
    assert answer.exit_code == 1
    assert re.fullmatch(r"Error: [^\n]+\n", answer.stderr)
    (folder / "control.db").unlink()
    (folder / "config.toml").write_text("port = 'x'")
    answer = CliRunner().invoke(cli.main, [*command, "--instance", str(folder)])
    assert answer.exit_code == 1
    assert re.fullmatch(r"Error: port in [^\n]+ must be a whole number, but is 'x'\n", answer.stderr)


def test_an_error_of_the_system_names_the_file(obs: Obs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = obs("org", "create", "acme", "--instance", str(tmp_path / "file" / "instance"))
    assert (done.exit_code, done.stderr) == (1, f"Error: {tmp_path / 'file'}: File exists.\n")


@pytest.mark.parametrize(
    "command",
    [
        ("org", "list"),
        ("org", "delete", "acme", "--yes"),
        ("org", "set-limit", "acme", "query_max_rows", "5"),
        ("key", "list", "acme"),
        ("key", "create", "acme", "--label", "x"),
        ("key", "revoke", "1"),
        ("sign-in", "acme"),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_command_in_the_wrong_folder_creates_nothing_and_names_the_folder(
    command: tuple[str, ...], exists: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    if exists:
        folder.mkdir()
    done = CliRunner().invoke(cli.main, [*command, "--instance", str(folder)])
    assert done.exit_code == 1
    assert done.stderr == f"Error: There is no instance in {folder}. Set --instance FOLDER.\n"
    assert list(tmp_path.rglob("*")) == ([folder] if exists else [])


def test_an_organization_that_is_missing_is_named_with_the_folder(obs: Obs, tmp_path: Path) -> None:
    obs("org", "create", "acme")
    done = obs("key", "list", "globex")
    assert done.stderr == (
        f"Error: There is no organization 'globex'. List them with: obs org list (instance: {tmp_path / 'instance'})\n"
    )
