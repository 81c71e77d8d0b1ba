"""The query page in a browser: the editor, and results as numbers, tables and downloads."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import Clock, KeyClient


@pytest.fixture(autouse=True)
def _runs(client: KeyClient, clock: Clock) -> None:
    for name in ("alpha", "beta", "beta"):
        client.post(f"/api/v1/heartbeat/{name}/end?duration_ms=61000")
    clock.advance(hours=1)


def test_an_error_is_selected(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.fill("#q", "SELECT count(*)\nFROM runs WHERE durationms > 5 LAST 1d")
    page.press("#q", "Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean duration_ms?")
    selected = "(q => q.value.slice(q.selectionStart, q.selectionEnd))(document.getElementById('q'))"
    expect(page.locator("#q")).to_be_focused()  # and selected at once
    assert page.evaluate(selected) == "durationms"


def test_an_error_after_an_emoji_is_selected(page: Page, address: str) -> None:
    statement = "SELECT '🚀🚀' AS x, nothing FROM runs LAST 1d"
    page.goto(f"{address}/query?q={quote(statement)}")
    expect(page.locator("#q")).to_be_focused()
    selected = "(q => q.value.slice(q.selectionStart, q.selectionEnd))(document.getElementById('q'))"
    assert page.evaluate(selected) == "nothing"


def test_words_are_completed_in_the_editor(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.locator("#q").press_sequentially("SELECT max(durat")
    expect(page.locator("#completions").get_by_role("option").first).to_have_text("duration_ms")
    page.press("#q", "Tab")
    expect(page.locator("#q")).to_have_value("SELECT max(duration_ms")
    page.fill("#q", "")
    page.locator("#q").press_sequentially("SELECT histo")
    page.press("#q", "Tab")
    expect(page.locator("#q")).to_have_value("SELECT histogram(")


def test_a_number_is_large_and_rows_are_a_table(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+LAST+1d")
    expect(page.locator(".single b")).to_have_text("3")
    page.goto(f"{address}/query?q=SELECT+job,+duration_ms+FROM+runs+ORDER+BY+job+LAST+1d")
    expect(page.locator("table td")).to_have_text(["alpha", "1 min 1 s", "beta", "1 min 1 s", "beta", "1 min 1 s"])
    expect(page.locator(".chart")).to_have_count(0)


def test_every_example_works_and_every_source_is_listed(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    examples = page.locator(".examples a").evaluate_all("all => all.map(one => one.href)")
    assert len(examples) > 5
    for example in examples:
        page.goto(example)
        expect(page.locator("#error")).to_have_count(0)
        expect(page.get_by_text(re.compile(r"^\d+ rows?$"))).to_be_visible()
    page.goto(f"{address}/query?q=SHOW+SOURCES")
    sources = page.locator("table td:first-child").all_inner_texts()
    assert sorted(page.locator("#sources summary code").all_inner_texts()) == sorted(sources)
    assert "incidents" in sources


def test_a_result_is_downloaded(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+BY+job+LAST+1d")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text().split() == ["job,count", "alpha,1", "beta,2"]


def choice(page: Page, label: str) -> Locator:
    return page.get_by_role("combobox", name=label, exact=True)


def test_a_chart_is_made_without_knowing_oql(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    for label, words in (
        ("Measure", "median duration_ms"),
        ("Only", "status is success"),
        ("By", "job"),
        ("Every", "hour"),
        ("Over the last", "day"),
    ):
        choice(page, label).select_option(words)
    statement = "SELECT p50(duration_ms) FROM runs WHERE status = 'success' BY job TOP 10 EVERY 1h LAST 1d"
    expect(page.locator("#q")).to_have_value(statement)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("figure", name="p50_duration_ms over time")).to_be_visible()
    # The page that shows the result has the same choices, so that one of them can be changed.
    choice(page, "Every").select_option("day")
    expect(page.locator("#q")).to_have_value(statement.replace("1h", "1d TIMEZONE 'Europe/Berlin'"))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("figure", name="p50_duration_ms over time")).to_be_visible()
    assert choice(page, "Every").input_value() == "1d"


def test_every_choice_of_the_dropdowns_is_a_valid_query(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    statements = set()
    for source in page.locator("#builder select").nth(1).locator("option").all_inner_texts():
        choice(page, "Of").select_option(source)
        for label in ("Measure", "Only", "By", "Every", "Over the last"):
            for words in choice(page, label).locator("option").all_inner_texts():
                choice(page, label).select_option(words)
                statements.add(page.locator("#q").input_value())
    assert len(statements) > 60
    failed = page.evaluate(
        """async (statements) => {
            const failed = [];
            for (const statement of statements) {
                const answer = await fetch(`/query/answer.json?${new URLSearchParams({ q: statement })}`);
                if (answer.status === 400) failed.push(statement);
            }
            return failed;
        }""",
        sorted(statements),
    )
    assert failed == []


def test_an_own_statement_is_kept_until_a_choice_replaces_it(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+max(duration_ms)+%2B+1+FROM+runs+LAST+1d")
    expect(page.locator("#q")).to_have_value("SELECT max(duration_ms) + 1 FROM runs LAST 1d")
    choice(page, "Of").select_option("incidents")
    expect(page.locator("#q")).to_have_value("SELECT count(*) FROM incidents LAST 7d")


def test_what_a_choice_or_a_completion_writes_over_can_be_undone(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.fill("#q", "")
    page.locator("#q").press_sequentially("SELECT max(durat")
    page.press("#q", "Tab")
    page.press("#q", "Control+z")
    expect(page.locator("#q")).to_have_value("SELECT max(durat")
    choice(page, "Of").select_option("incidents")
    expect(choice(page, "Of")).to_be_focused()
    expect(page.locator("#q")).to_have_value("SELECT count(*) FROM incidents LAST 7d")
    page.press("#q", "Control+z")
    expect(page.locator("#q")).to_have_value("SELECT max(durat")


def test_the_dropdowns_show_a_statement_without_top(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+BY+job+EVERY+1d+LAST+7d")
    expect(choice(page, "By")).to_have_value("job")
    expect(choice(page, "Every")).to_have_value("1d")


def test_jobs_and_runs_in_a_result_are_links(page: Page, address: str, client: KeyClient, clock: Clock) -> None:
    client.post("/api/v1/heartbeat/alpha/start")
    client.post("/api/v1/heartbeat/alpha/log", data="halfway")
    clock.advance(minutes=1)
    page.goto(f"{address}/query?q=SELECT+job,+run_id,+message+FROM+logs+LAST+1d")
    page.locator("td").get_by_role("link", name="4").click()
    expect(page.locator("h1")).to_contain_text("Run 4")
    page.go_back()
    page.locator("td").get_by_role("link", name="alpha").click()
    expect(page.locator("h1")).to_contain_text("alpha")


def test_a_statement_is_saved_by_name_in_this_browser(page: Page, address: str) -> None:
    hostile = "<img src=x onerror=\"document.body.dataset.broken='yes'\">"
    page.goto(f"{address}/query")
    for name, statement in (("By job", "SELECT count(*) FROM runs BY job LAST 1d"), (hostile, f"SELECT '{hostile}'")):
        page.fill("#q", statement)
        page.locator("#saved").get_by_label("Name").fill(name)
        page.get_by_role("button", name="Save this query").click()
    page.goto(f"{address}/settings")
    page.goto(f"{address}/query")
    expect(page.locator("#saved li a")).to_have_text(["By job", hostile])
    assert page.evaluate("document.body.dataset.broken") is None
    page.get_by_role("link", name="By job", exact=True).click()
    expect(page.locator("#q")).to_have_value("SELECT count(*) FROM runs BY job LAST 1d")
    page.get_by_role("button", name="Delete By job").click()
    page.reload()
    expect(page.locator("#saved li a")).to_have_text([hostile])


def test_an_empty_editor_is_not_saved(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.fill("#q", " ")
    page.fill("#saved [name=name]", "empty")
    page.get_by_role("button", name="Save this query").click()
    expect(page.get_by_role("alert").filter(has_text="Write a query first.")).to_be_visible()
    page.fill("#q", "SELECT count(*) FROM runs LAST 1d")
    page.get_by_role("button", name="Save this query").click()
    expect(page.locator("#saved li a")).to_have_text(["empty"])
    expect(page.get_by_text("Write a query first.")).to_be_hidden()


def test_a_browser_that_stores_nothing_says_so(page: Page, address: str) -> None:
    page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('denied'); }})")
    page.goto(f"{address}/query")
    expect(page.get_by_text("Your browser does not let this page store anything.")).to_be_visible()


def test_fields_of_parameters_follow_the_statement_and_their_values_are_in_the_url(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for host in ("nas01", "nas01", "web-1"):
        client.post("/api/v1/heartbeat/backup/end", headers={"X-Platform-Host": host})
    clock.advance(minutes=1)
    page.goto(f"{address}/query")
    editor, fields = page.locator("#q"), page.locator("#parameters input")
    expect(page.locator("#parameters")).to_be_hidden()
    editor.fill(
        "SELECT count(*) FROM runs WHERE host = :host AND job <> ':no' AND job <> :job /* :no */ LAST 1d -- :no"
    )
    expect(fields).to_have_count(2)
    page.get_by_label(":host").fill("nas01")
    editor.press("End")
    editor.fill("SELECT count(*) FROM runs WHERE host = :host LAST 1d")
    expect(fields).to_have_count(1)
    page.get_by_label(":host").press("Enter")
    expect(page.locator(".single")).to_contain_text("2 count")
    expect(page.get_by_label(":host")).to_have_value("nas01")
    assert "%3Ahost=nas01" in page.url
    page.reload()
    expect(page.locator(".single")).to_contain_text("2 count")
    page.get_by_label(":host").fill("")
    page.get_by_label(":host").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The parameter host has no value. Enter it below.")
    expect(page.get_by_label(":host")).to_be_focused()
