"""Times in forms are in the viewer's time zone."""

from zoneinfo import ZoneInfo

import pytest

from obs.dashboard import forms
from obs.times import format_ms, parse_iso
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor
from tests.dashboard.test_forms import problems, value

NEW_YORK = ZoneInfo("America/New_York")
NOW_MS = parse_iso("2026-06-21T10:00:00Z")


@pytest.fixture
def new_yorker(admin: Visitor) -> Visitor:
    """An admin whose browser has reported New York."""
    admin.client.set_cookie("obs_zone", "America/New_York")
    return admin


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-07-01T22:00", "2026-07-02T02:00:00.000Z"),
        ("2026-12-01T22:00", "2026-12-02T03:00:00.000Z"),
        ("2026-07-01 22:00:30", "2026-07-02T02:00:30.000Z"),
        ("2026-07-01", "2026-07-01T04:00:00.000Z"),
        ("2026-07-01T22:00Z", "2026-07-01T22:00:00.000Z"),
        ("2026-07-01T22:00+02:00", "2026-07-01T20:00:00.000Z"),
        ("now", "2026-06-21T10:00:00.000Z"),
        ("+2h", "2026-06-21T12:00:00.000Z"),
        ("2026-03-08T02:30", "2026-03-08T07:30:00.000Z"),  # skipped when clocks go forward: becomes 03:30
        ("2026-11-01T01:30", "2026-11-01T05:30:00.000Z"),  # twice when clocks go back: the first
    ],
)
def test_a_typed_time_is_read_in_the_zone(text: str, moment: str) -> None:
    assert format_ms(forms.parse_typed(text, NEW_YORK, NOW_MS)) == moment


@pytest.mark.parametrize("text", ["", "tomorrow", "22:00", "2026-13-01T10:00", "0001-01-01T00:00", "9999-12-31T23:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Enter a date and time|The year must be"):
        forms.parse_typed(text, NEW_YORK, NOW_MS)


@pytest.mark.parametrize("moment", ["2026-07-02T02:00:00Z", "2026-07-02T02:00:07Z", "2026-11-01T05:30:00Z"])
def test_what_a_form_shows_is_read_back_as_the_same_time(moment: str) -> None:
    shown = forms.as_input(parse_iso(moment), NEW_YORK)
    assert forms.parse_typed(shown, NEW_YORK, NOW_MS) == parse_iso(moment)


def test_the_last_moment_of_the_year_9999_can_be_shown() -> None:
    moment = parse_iso("9999-12-31T23:59:59Z")
    assert forms.parse_typed(forms.as_input(moment, ZoneInfo("Asia/Tokyo")), ZoneInfo("Asia/Tokyo"), NOW_MS) == moment


@pytest.mark.parametrize(
    ("day", "start", "end"),
    [
        ("2026-07-01", "2026-07-02T02:00:00.000Z", "2026-07-02T03:00:00.000Z"),
        ("2026-12-01", "2026-12-02T03:00:00.000Z", "2026-12-02T04:00:00.000Z"),
    ],
)
def test_maintenance_at_22_00_in_new_york_is_stored_as_that(
    new_yorker: Visitor, client: KeyClient, day: str, start: str, end: str
) -> None:
    assert "America/New_York time" in new_yorker.get("/incidents").text
    new_yorker.post("/incidents/maintenance", start_time=f"{day}T22:00", end_time=f"{day}T23:00")
    (window,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (window["start_time"], window["end_time"]) == (start, end)


def test_an_annotation_is_added_and_shown_in_the_zone(new_yorker: Visitor, client: KeyClient) -> None:
    new_yorker.post("/annotations", name="deploy/web", title="out", start_time="2026-06-20T22:00", end_time="")
    assert client.get("/api/v1/annotations/1").json["start_time"] == "2026-06-21T02:00:00.000Z"
    assert value(new_yorker.get("/annotations/1").text, "start_time") == "2026-06-20T22:00"
    assert new_yorker.post(
        "/annotations/1", name="deploy/web", title="out", start_time="2026-06-20T22:00", end_time="2026-06-20T23:30"
    ).location == "/annotations"  # fmt: skip
    assert client.get("/api/v1/annotations/1").json["end_time"] == "2026-06-21T03:30:00.000Z"


def test_times_that_were_not_edited_stay_to_the_millisecond(new_yorker: Visitor, client: KeyClient) -> None:
    band = {"start_time": "2026-06-20T08:00:07.123Z", "end_time": "2026-06-20T09:00:00.456Z"}
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "out", **band})
    text = new_yorker.get("/annotations/1").text
    shown = {name: value(text, name) for name in band}
    new_yorker.post("/annotations/1", name="deploy/web", title="renamed", **shown)
    changed = client.get("/api/v1/annotations/1").json
    assert (changed["title"], changed["start_time"], changed["end_time"]) == ("renamed", *band.values()), shown
    new_yorker.post("/annotations/1", name="deploy/web", title="renamed", **{**shown, "end_time": ""})
    assert client.get("/api/v1/annotations/1").json["end_time"] is None


def test_a_form_is_read_in_the_zone_that_it_was_shown_in(admin: Visitor, client: KeyClient) -> None:
    text = admin.get("/incidents").text
    assert "UTC: your browser did not report a time zone" in text
    assert value(text, "zone") == "UTC"
    admin.client.set_cookie("obs_zone", "America/New_York")  # reported after the form was shown
    times = {"start_time": "2026-07-01T22:00", "end_time": "2026-07-01T23:00"}
    admin.post("/incidents/maintenance", zone="UTC", **times)
    (window,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert window["start_time"] == "2026-07-01T22:00:00.000Z"


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "", "x" * 5000])
def test_an_unknown_zone_is_utc(admin: Visitor, client: KeyClient, zone: str) -> None:
    admin.client.set_cookie("obs_zone", "Mars/Base")
    admin.post("/incidents/maintenance", zone=zone, start_time="2026-07-01T22:00", end_time="2026-07-01T23:00")
    (window,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert window["start_time"] == "2026-07-01T22:00:00.000Z"


def test_the_filters_of_the_annotations_are_read_in_the_zone(
    new_yorker: Visitor, client: KeyClient, clock: Clock
) -> None:
    for hour in (3, 5):
        start = f"2026-06-21T0{hour}:00:00Z"
        client.post("/api/v1/annotations", json={"name": "deploy/web", "title": f"at {hour} UTC", "start_time": start})
    found = new_yorker.get("/annotations?start=2026-06-21").text  # which began at 04:00 UTC
    assert "at 5 UTC" in found
    assert "at 3 UTC" not in found
    assert "at 3 UTC" not in new_yorker.get("/annotations?start=-6h").text
    assert "at 3 UTC" in new_yorker.get("/annotations?start=2026-06-21T03:00Z").text
    assert "at 3 UTC" in new_yorker.get("/annotations?end=2026-06-20").text  # all of that day, which ends at 04:00 UTC
    assert "at 5 UTC" not in new_yorker.get("/annotations?end=2026-06-20").text
    assert "at 5 UTC" in new_yorker.get("/annotations?end=2026-06-21").text
    refused = new_yorker.get("/annotations?start=soon&q=UTC")
    assert refused.status_code == 422
    assert list(problems(refused.text)) == ["start"]
    assert (value(refused.text, "start"), value(refused.text, "q")) == ("soon", "UTC")
