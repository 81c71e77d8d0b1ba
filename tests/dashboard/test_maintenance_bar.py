"""Each page says that maintenance is going on, and until when."""

import pytest

from tests.conftest import Clock
from tests.dashboard.conftest import Visitor

BAR = "): no job becomes overdue and no incident is opened."


@pytest.mark.parametrize("path", ["/", "/projects", "/query", "/annotations", "/incidents", "/alerts", "/settings"])
def test_each_page_names_the_window_that_ends_last_while_one_is_open(admin: Visitor, clock: Clock, path: str) -> None:
    for title, start, end in (
        ("<b>Disks</b>", "12:00", "14:00"),
        ("Short", "12:00", "13:00"),
        ("Later", "20:00", "23:00"),
    ):
        admin.post(
            "/incidents/maintenance", title=title, start_time=f"2026-06-21T{start}", end_time=f"2026-06-21T{end}"
        )
    for moment, is_shown in (("11:59:59", False), ("12:00:00", True), ("13:59:59", True), ("14:00:00", False)):
        clock.set(f"2026-06-21T{moment}Z")
        text = admin.get(path).text
        assert (BAR in text) is is_shown, moment
        assert ("14:00:00 UTC</time> (&lt;b&gt;Disks" in text) is is_shown, moment


def test_other_organizations_and_strangers_see_no_bar(admin: Visitor, stranger: Visitor, clock: Clock) -> None:
    admin.post("/incidents/maintenance", title="x", start_time="2026-06-21T09:00", end_time="2026-06-21T14:00")
    assert BAR in admin.get("/").text
    assert BAR not in stranger.get("/").text
