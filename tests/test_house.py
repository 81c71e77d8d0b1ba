"""The rules of the house, read off the code: where SQL stands, what is documented."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from obs import cli, config
from obs.errors import ERROR_CODES

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    for path in [*ROOT.glob("obs/**/*.py"), *ROOT.glob("migrations/*.py")]
)
SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX))\b", re.S)
OQL = re.compile(r"\bLAST \d|\b(BETWEEN|SINCE)\b")  # every statement of OQL has a time window
SQL_STANDS_IN = re.compile(
    r"migrations\..*|obs\.storage\..*|obs\.query\.sql\..*|obs\..*\bstore(\..*)?|obs\.\w+\.source"  # a Source is SQL
)


def _path(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("module", [module for module in MODULES if not SQL_STANDS_IN.fullmatch(module)])
def test_sql_stands_in_stores_and_the_compiler(module: str) -> None:
    tree = ast.parse(_path(module).read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
        and SQL.search(node.value)
        and not OQL.search(node.value)
    ]
    assert not found


@pytest.mark.parametrize("module", [module for module in MODULES if re.search(r"\bstore\b", module)])
def test_a_store_does_not_know_flask(module: str) -> None:
    text = _path(module).read_text()
    assert not re.search(r"^\s*(from|import) flask", text, re.M)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse(_path(module).read_text()))


@pytest.mark.parametrize("module", MODULES)
def test_files_are_named_for_what_they_hold(module: str) -> None:
    assert not set(module.split(".")) & {"utils", "util", "helpers", "helper", "misc", "common"}


def _rows(page: str) -> dict[str, list[str]]:
    """The rows of the tables of a page of docs, by the word in the first cell."""
    found = {}
    for line in (ROOT / "docs" / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_every_error_word_is_documented() -> None:
    rows = {word: cells for word, cells in _rows("errors.md").items() if len(cells) == 3}
    assert {word: int(cells[0]) for word, cells in rows.items()} == {
        word: status for word, (status, _) in ERROR_CODES.items()
    }
    assert all(meaning and advice for _, meaning, advice in rows.values())


def test_every_setting_is_documented_with_its_default() -> None:
    rows = {name: cells[0].strip("`") for name, cells in _rows("settings.md").items()}
    assert rows == {setting.name: str(setting.default) for setting in config.SETTINGS}


def _commands(group: click.Group, prefix: str = "obs") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


@pytest.mark.parametrize(("name", "command"), list(_commands(cli.main)), ids=lambda value: str(value))
def test_every_command_is_documented_with_its_options(name: str, command: click.Command) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    arguments = [parameter.human_readable_name for parameter in command.params if isinstance(parameter, click.Argument)]
    title = f"## `{' '.join([name, *arguments])}`\n"
    assert title in page
    section = page.partition(title)[2].partition("\n## ")[0]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name != "folder":
            assert f"`{parameter.opts[0]}`" in section
    assert command.help


def test_no_command_is_documented_that_is_not_there() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    titles = re.findall(r"^## `(obs [a-z -]+?)(?: [A-Z_ ]+)?`$", page, re.M)
    assert sorted(titles) == sorted(name for name, _ in _commands(cli.main))


GUIDES = ("CONTRIBUTING.md", "docs/architecture.md")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", GUIDES)
def test_every_path_that_a_guide_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"(?<![\w/.-])(?:[a-z_]+/)+(?:[a-z_]+\.[a-z]+)?(?![\w/*])", text))
    places = [ROOT, ROOT / "obs"]  # architecture.md leaves out obs/
    ours = {path for path in named if any((place / path.split("/")[0]).is_dir() for place in places)}
    ours = {path for path in ours if not path.startswith("instance/")}  # is created at run time
    assert len(ours) > 20
    assert {path for path in ours if not any((place / path).exists() for place in places)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_between_pages_resolves(page: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text())
    for path, _, section in (link.partition("#") for link in links if "://" not in link):
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), path
        if section and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.M)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert section in anchors, f"{path}#{section}"
