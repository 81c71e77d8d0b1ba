"""Where settings come from, and the errors for invalid ones."""

from pathlib import Path

import pytest

from obs import config, create_app
from obs.config import SETTINGS, ConfigError, load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def _write(folder: Path, text: str) -> None:
    (folder / "config.toml").write_text(text)


def test_the_defaults(folder: Path) -> None:
    assert load(folder, {}) == {setting.name: setting.default for setting in SETTINGS}


def test_the_file_overrides_the_defaults_and_the_environment_overrides_the_file(folder: Path) -> None:
    _write(folder, 'port = 9000\nhost = "0.0.0.0"\nthreads = 8')
    settings = load(folder, {"OBS_PORT": "9001", "OBS_BASE_URL": "https://obs.example.com", "PORT": "1"})
    assert (settings["HOST"], settings["PORT"], settings["THREADS"]) == ("0.0.0.0", 9001, 8)
    assert settings["BASE_URL"] == "https://obs.example.com"


@pytest.mark.parametrize("value", ["", "x", "1.5", "0", "-1", "65536", "8080x"])
def test_invalid_numbers_in_the_environment(folder: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="OBS_PORT must be"):
        load(folder, {"OBS_PORT": value})


@pytest.mark.parametrize("value", ["'x'", "1.5", "true", "0", "65536", "[1]", "2026-06-21"])
def test_invalid_numbers_in_the_file(folder: Path, value: str) -> None:
    _write(folder, f"port = {value}")
    with pytest.raises(ConfigError, match=r"port in .*config\.toml must be"):
        load(folder, {})


@pytest.mark.parametrize("value", ["7", "true", "['x']"])
def test_invalid_text_in_the_file(folder: Path, value: str) -> None:
    _write(folder, f"host = {value}")
    with pytest.raises(ConfigError, match=r"host in .*config\.toml must be text"):
        load(folder, {})


@pytest.mark.parametrize("value", ["1", "'1'"])
def test_a_choice_that_is_a_number_may_be_written_as_one(folder: Path, value: str) -> None:
    _write(folder, f"allow_private_targets = {value}")
    assert load(folder, {})["ALLOW_PRIVATE_TARGETS"] == "1"


@pytest.mark.parametrize("value", ["2", "true", "1.0", "[1]"])
def test_an_invalid_choice_in_the_file(folder: Path, value: str) -> None:
    _write(folder, f"allow_private_targets = {value}")
    with pytest.raises(ConfigError, match=r"allow_private_targets in .*config\.toml must be auto or 0 or 1"):
        load(folder, {})


@pytest.mark.parametrize("name", ["BASE_URL", "HEARTBEAT_URL"])
def test_a_url_needs_its_scheme(folder: Path, name: str) -> None:
    for value in ("", "http://[::1]:8080", "https://obs.example.com/"):
        assert load(folder, {f"OBS_{name}": value})[name] == value
    with pytest.raises(ConfigError, match=f"OBS_{name} must begin with http:// or https://, but is 'obs.example.com'"):
        load(folder, {f"OBS_{name}": "obs.example.com"})


@pytest.mark.parametrize("name", ["prot", "PORT", "Port", "instance"])
def test_an_unknown_setting_is_rejected(folder: Path, name: str) -> None:
    _write(folder, f"{name} = 1")
    with pytest.raises(ConfigError, match=f"unknown setting: {name}"):
        load(folder, {})


@pytest.mark.parametrize("content", [b"port = ", b"port 8080", b"\xff", b"port = 1\nport = 2"])
def test_invalid_toml_is_rejected(folder: Path, content: bytes) -> None:
    (folder / "config.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML"):
        load(folder, {})


def test_a_busy_time_of_zero_is_valid(folder: Path) -> None:
    assert load(folder, {"OBS_BUSY_SECONDS": "0"})["BUSY_SECONDS"] == 0


def test_the_instance_folder_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OBS_INSTANCE", str(tmp_path / "there"))
    assert config.default_instance() == tmp_path / "there"


def test_the_instance_folder_in_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OBS_INSTANCE", raising=False)
    assert config.default_instance() == Path(config.__file__).parent.parent / "instance"


def test_every_setting_has_a_help_text_and_a_valid_default() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    for setting in SETTINGS:
        assert setting.help.endswith(".")
        assert isinstance(setting.default, str) or setting.least <= setting.default <= setting.most


@pytest.mark.parametrize(
    ("name", "value"),
    [("TIME_ZONES", "Europe/Nowhere"), ("TRUSTED_PROXIES", "10.0.0.0/33"), ("INGEST_URL_TEMPLATE", "/in/{org}")],
)
def test_a_wrong_setting_is_refused_before_any_file_is_made(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        create_app({"INSTANCE": tmp_path / "instance", name: value})
    assert not list(tmp_path.iterdir())
