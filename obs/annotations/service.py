"""Changes to annotations. Every route, page and command goes through here."""

import sqlite3
from collections.abc import Container, Mapping
from dataclasses import asdict, replace
from typing import Any

from obs.annotations import rules, store
from obs.tenancy import audit
from obs.tenancy.auth import Caller


def create(caller: Caller, fields: Mapping[str, Any]) -> tuple[rules.Annotation, bool]:
    """Create an annotation from `fields`, loaded by AnnotationRequestSchema; returns it, and whether it is new.

    A known idempotency key returns the annotation that has it. Raises ServiceError (422; 507: no more are allowed).
    """
    new = rules.new(fields, caller.now_ms)

    def unit(db: sqlite3.Connection) -> tuple[rules.Annotation, bool]:
        annotation, is_new = store.add(db, new)
        if is_new:
            caller.tenancy.quotas.check_new(caller.org, "max_annotations", store.count_annotations(db))
        return annotation, is_new

    return caller.write(unit)


def update(
    caller: Caller, annotation_id: int, changes: Mapping[str, Any], versions: Container[str] | None = None
) -> rules.Annotation:
    """Make `changes`, and return the annotation. Raises ServiceError (404, 409, 412, 422)."""

    def unit(db: sqlite3.Connection) -> rules.Annotation:
        stored = store.find(db, annotation_id, caller.now_ms)
        rules.check_change(stored, versions)
        revised = replace(stored, **changes, updated_at=caller.now_ms)
        rules.check_times(revised, changes, caller.now_ms)
        store.save(db, values=asdict(revised))
        return revised

    return caller.write(unit)


def delete(caller: Caller, annotation_id: int, versions: Container[str] | None = None) -> rules.Annotation:
    """Delete an annotation and return it. Raises ServiceError (404, 409 or 412) as `update` does."""

    def unit(db: sqlite3.Connection) -> rules.Annotation:
        deleted = store.find(db, annotation_id, caller.now_ms)
        rules.check_change(deleted, versions)
        store.delete(db, annotation_id)
        subject = f"annotation {annotation_id} ({deleted.name})"
        audit.add(db, caller.actor, caller.now_ms, audit.Action.DELETE_ANNOTATION, subject)
        return deleted

    return caller.write(unit)


def get(caller: Caller, annotation_id: int) -> rules.Annotation:
    return caller.fetch(lambda db: store.find(db, annotation_id, caller.now_ms))
