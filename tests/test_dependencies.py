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


def _lock() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Out of the lock file: the versions of each package (more than one where Pythons differ), and what needs it."""
    versions: dict[str, set[str]] = defaultdict(set)
    needed_by: dict[str, set[str]] = defaultdict(set)
    name = ""
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if not line.startswith((" ", "#")):
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            versions[name].add(pin.version)
        elif found := re.fullmatch(r" +#(?: +via)? +(\S+)(?: \(pyproject\.toml\))?", line):
            needed_by[name].add(canonicalize_name(found[1]))
    return versions, needed_by


def _needed_to_run() -> set[str]:
    """The packages without which the service does not run: what it names, and what those need."""
    versions, needed_by = _lock()
    needed: set[str] = {canonicalize_name(requirement.name) for requirement in RUN}
    while more := {name for name in versions if name not in needed and needed_by[name] & needed}:
        needed |= more
    return needed


@pytest.mark.parametrize("requirement", [*RUN, *TEST], ids=str)
def test_every_dependency_is_pinned_to_a_version_that_it_allows(requirement: Requirement) -> None:
    pinned = _lock()[0][canonicalize_name(requirement.name)]
    assert pinned, "not in requirements.lock; its first lines say how it is made"
    assert all(requirement.specifier.contains(version) for version in pinned), pinned


def test_nothing_is_pinned_that_nothing_needs() -> None:
    versions, needed_by = _lock()
    named = {canonicalize_name(requirement.name) for requirement in [*RUN, *TEST]}
    assert {name for name in versions if not needed_by[name] & versions.keys()} <= named


def test_the_commands_install_what_is_pinned() -> None:
    commands = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.M)
    assert [re.sub(r"^.*&& ", "", command) for command in commands] == [".venv/bin/obs serve", ".venv/bin/pytest"]
    assert all(" -c requirements.lock " in command for command in commands)
    assert commands[1] in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_bill_of_materials_lists_what_the_service_needs_to_run() -> None:
    bill = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    listed = {(canonicalize_name(part["name"]), part["version"]) for part in bill["components"]}
    versions = _lock()[0]
    assert listed == {(name, version) for name in _needed_to_run() for version in versions[name]}, (
        "SECURITY.md says how the bill is made"
    )


def test_the_version_is_the_same_everywhere() -> None:
    bill = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    newest = re.search(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert newest[1] == bill["metadata"]["component"]["version"] == PROJECT["version"]
