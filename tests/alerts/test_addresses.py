"""Addresses of channels: every service of Apprise can be saved and masked, or is refused by name."""

import re
import string
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import apprise
import pytest

from obs.alerts.courier import Answer, Courier

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library imports a module that Python deprecates
    from obs.alerts.courier.apprise import LOCAL_SCHEMAS

    _DETAILS = apprise.Apprise().details()["schemas"]
SERVICES = {
    str(schema): service
    for service in _DETAILS
    for schema in [*(service["protocols"] or []), *(service["secure_protocols"] or [])]
}
SECRETS = ("hunter2hunter2", "S3cr3tT0ken")


def _value(token: dict[str, Any]) -> str:
    """A value that the pattern of a token of a URL accepts, with a secret in it where it can be."""
    if token.get("values"):
        return str(next(iter(token["values"])))
    if token["type"].startswith("int"):
        return str(token.get("min") or 8080)
    pattern = (token.get("regex") or ("", ""))[0]
    letters = string.digits if re.fullmatch(r"[\^(]*\+?\[?(0-9|\\d).*", pattern) else string.ascii_letters
    for text in (*SECRETS, "+15551234567", "a" * 8 + "-" + "b" * 4, letters[:8] * 4, letters[:8] * 8):
        if not pattern or re.match(pattern, text, re.I):
            return text
    return letters[:10]


def _url(schema: str) -> str:
    """A URL of a service from the first of its own templates."""
    service = SERVICES[schema]["details"]
    tokens = service["tokens"]
    template = next((one for one in service["templates"] if "{host}" in one), service["templates"][0])
    values = {name: _value(token) for name, token in tokens.items() if "type" in token}
    values |= {"schema": schema, "host": "example.com", "port": "8443", "password": SECRETS[0], "token": SECRETS[1]}
    values = {name: values.get(name, SECRETS[1]) for name in re.findall(r"{(\w+)}", template)}
    return str(template).format(**values)


@pytest.fixture(scope="module")
def courier() -> Iterator[Courier]:
    one = Courier(lambda: True)
    yield one
    one.close()


@pytest.fixture(scope="module")
def answers(courier: Courier) -> dict[str, Answer]:
    """What the courier answers to a URL of each schema."""
    waiting: dict[str, Future[Answer]] = {
        schema: courier.submit({"op": "check", "kind": "apprise", "address": _url(schema)}) for schema in SERVICES
    }
    return {schema: future.result(timeout=120) for schema, future in waiting.items()}


def test_every_service_of_apprise_is_masked_or_refused_by_name(answers: dict[str, Answer]) -> None:
    assert len(answers) > 150
    saved = {schema for schema, answer in answers.items() if "masked" in answer}
    for schema, answer in answers.items():
        if schema in saved:
            assert answer["masked"].startswith(f"{schema}://")
            assert not any(secret in answer["masked"] for secret in SECRETS), answer
        else:
            assert answer["refused"], (schema, answer)
            assert schema in answer["answer"].lower() or len(answer["answer"]) > 20, (schema, answer)
    assert saved.isdisjoint(LOCAL_SCHEMAS)
    assert len(saved) > 0.6 * len(answers), sorted(answers.keys() - saved)


@pytest.mark.parametrize("schema", sorted(LOCAL_SCHEMAS & SERVICES.keys()))
def test_services_of_the_machine_itself_are_refused(schema: str, answers: dict[str, Answer]) -> None:
    assert "the server itself" in answers[schema]["answer"]
