"""What is installed is what was pinned: the lock file, the commands that use it, and the bill of materials."""

import json
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = [Requirement(text) for text in PROJECT["dependencies"]]
TEST = [Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts]


SERVICE, TESTS = "requirements.lock", "requirements-test.lock"


def _lock(file: str = SERVICE) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Out of a lock file: the versions of each package (more than one where Pythons differ), and what needs it."""
    versions: dict[str, set[str]] = defaultdict(set)
    needed_by: dict[str, set[str]] = defaultdict(set)
    name = ""
    for line in (ROOT / file).read_text().splitlines():
        if not line.startswith((" ", "#")):
            requirement = Requirement(line.removesuffix(" \\"))
            name = canonicalize_name(requirement.name)
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            versions[name].add(pin.version)
        elif found := re.fullmatch(r" +#(?: +via)? +(\S+)(?: \(pyproject\.toml\))?", line):
            needed_by[name].add(canonicalize_name(found[1]))
    return versions, needed_by


@pytest.mark.parametrize("file", [SERVICE, TESTS])
def test_every_pinned_package_has_the_hashes_of_its_files(file: str) -> None:
    text = re.sub(r" \\\n +", " ", (ROOT / file).read_text())
    pins = [line for line in text.splitlines() if not line.startswith((" ", "#"))]
    assert len(pins) > 30
    assert [pin for pin in pins if " --hash=sha256:" not in pin] == []


def test_the_tests_run_with_the_packages_of_the_service() -> None:
    service, tests = _lock(SERVICE)[0], _lock(TESTS)[0]
    assert {name: tests[name] for name in service} == service


@pytest.mark.parametrize("requirement", [*RUN, *TEST], ids=str)
def test_every_dependency_is_pinned_to_a_version_that_it_allows(requirement: Requirement) -> None:
    pinned = _lock(SERVICE if requirement in RUN else TESTS)[0][canonicalize_name(requirement.name)]
    assert pinned, "not in the lock file; its first lines say how it is made"
    assert all(requirement.specifier.contains(version) for version in pinned), pinned


@pytest.mark.parametrize(("file", "wanted"), [(SERVICE, RUN), (TESTS, [*RUN, *TEST])])
def test_nothing_is_pinned_that_nothing_needs(file: str, wanted: list[Requirement]) -> None:
    versions, needed_by = _lock(file)
    named = {canonicalize_name(requirement.name) for requirement in wanted}
    assert {name for name in versions if not needed_by[name] & versions.keys()} <= named


def test_the_commands_install_what_is_pinned() -> None:
    commands = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.M)
    assert [re.sub(r"^.*&& ", "", command) for command in commands] == [".venv/bin/obs serve", ".venv/bin/pytest"]
    for command, file in zip(commands, (SERVICE, TESTS), strict=True):
        assert f" --require-hashes -r {file} && .venv/bin/pip install --no-deps -e . " in command
    assert commands[1] in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_bill_of_materials_lists_what_the_service_needs_to_run() -> None:
    bill = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    listed = {(canonicalize_name(part["name"]), part["version"]) for part in bill["components"]}
    pinned = {(name, version) for name, versions in _lock()[0].items() for version in versions}
    assert listed == pinned, "SECURITY.md says how the bill is made"


def test_the_version_is_the_same_everywhere() -> None:
    bill = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    newest = re.search(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert newest[1] == bill["metadata"]["component"]["version"] == PROJECT["version"]
