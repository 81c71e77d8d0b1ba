"""The audit log: who changed what, when and from where. Each organization's file has its own, kept as long as runs."""

import logging
import sqlite3
from enum import StrEnum
from typing import NamedTuple

from obs.errors import ServiceError
from obs.sources import read_source
from obs.storage.connection import save_row
from obs.storage.databases import Databases, Org

_log = logging.getLogger(__name__)


class Action(StrEnum):
    SIGN_IN = "sign in"
    FAILED_SIGN_IN = "failed sign in"
    SIGN_OUT = "sign out"
    CREATE_KEY = "create key"
    REVOKE_KEY = "revoke key"
    ADD_USER = "add user"
    CHANGE_USER = "change user"
    DELETE_USER = "delete user"
    END_SESSION = "end session"
    CREATE_ORGANIZATION = "create organization"
    SET_LIMIT = "set limit"
    REACH_LIMIT = "reach limit"
    CREATE_JOB = "create job"
    CHANGE_JOB = "change job"
    DELETE_JOB = "delete job"
    DELETE_JOBS = "delete jobs"
    ADD_WINDOW = "add maintenance window"
    DELETE_WINDOW = "delete maintenance window"
    DELETE_ANNOTATION = "delete annotation"
    CREATE_CHANNEL = "create channel"
    CHANGE_CHANNEL = "change channel"
    DELETE_CHANNEL = "delete channel"
    CREATE_ALERT = "create alert"
    CHANGE_ALERT = "change alert"
    DELETE_ALERT = "delete alert"
    ACKNOWLEDGE_INCIDENT = "acknowledge incident"
    JUDGE_INCIDENT = "judge incident"


class Actor(NamedTuple):
    """Who does something, such as ``ana`` or ``key 7 (nas)``, and the IP address of the client, if there is one."""

    name: str
    address: str = ""


AUDIT = read_source(__file__, "audit", {"action": {"texts": tuple(Action)}}, admin_only=True)
COMMAND_LINE, SERVICE = Actor("command line"), Actor("obs")


def add(db: sqlite3.Connection, actor: Actor, now_ms: int, action: Action, subject: str) -> None:
    """Add an entry in the transaction that makes the change; `subject` is what was changed, such as a job's name."""
    entry = {"time": now_ms, "actor": actor.name, "action": action, "object": subject, "address": actor.address}
    save_row(db, "audit", entry)


def note(databases: Databases, org: Org, actor: Actor, now_ms: int, action: Action, subject: str) -> None:
    """Add an entry for a change in another file. It is only logged when the organization's file cannot be written."""
    try:
        databases.write(org, lambda db: add(db, actor, now_ms, action, subject))
    except ServiceError as error:
        _log.warning("audit log of %s: %s: %s: %s (%s)", org, " ".join(actor), action, subject, error.message)
