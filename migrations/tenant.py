"""The schema of an organization's file: annotations, jobs, runs, events, incidents. Steps are append-only.

Times are INTEGER milliseconds since the Unix epoch. Statuses and kinds are small INTEGERs: the values of
`obs.heartbeat.runs.Status`, `obs.heartbeat.runs.Kind` and `obs.alerts.store.incidents.IncidentKind`.
"""

import unicodedata
from functools import partial

from sqlite_utils import Database, Migrations

migrations = Migrations("tenant")


@migrations()
def annotations(db: Database) -> None:
    db.execute("""
        CREATE TABLE annotations (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL,
            title TEXT NOT NULL,
            start_time INTEGER NOT NULL,
            end_time INTEGER,
            description TEXT,
            url TEXT,
            idempotency_key TEXT,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL
        ) STRICT
    """)
    # A name in the index lets a prefix be tried without reading the row.
    db.execute("CREATE INDEX annotations_start ON annotations(start_time, id, name)")
    db.execute(
        "CREATE INDEX annotations_bands ON annotations(start_time, id, end_time, name) WHERE end_time IS NOT NULL"
    )
    db.execute("CREATE INDEX annotations_end ON annotations(coalesce(end_time, start_time))")
    db.execute("CREATE INDEX annotations_name ON annotations(name, start_time, end_time)")
    db.execute(
        "CREATE UNIQUE INDEX annotations_idempotency_key ON annotations(idempotency_key) "
        "WHERE idempotency_key IS NOT NULL"
    )


@migrations()
def heartbeats(db: Database) -> None:
    db.execute("""
        CREATE TABLE attributions (
            id INTEGER PRIMARY KEY,
            host TEXT,
            service TEXT,
            project TEXT
        ) STRICT
    """)
    db.execute(
        "CREATE UNIQUE INDEX attributions_values "
        "ON attributions(coalesce(host, ''), coalesce(service, ''), coalesce(project, ''))"
    )
    db.execute("""
        CREATE TABLE jobs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            created_at INTEGER NOT NULL,
            attribution_id INTEGER REFERENCES attributions(id),
            last_heartbeat_at INTEGER NOT NULL,
            last_event_id INTEGER NOT NULL,
            last_outcome INTEGER,
            run_count INTEGER NOT NULL DEFAULT 0,
            timed_run_count INTEGER NOT NULL DEFAULT 0,
            total_duration_ms INTEGER NOT NULL DEFAULT 0,
            learned_event_id INTEGER,
            expected_interval_ms INTEGER,
            next_expected INTEGER,
            overdue_from INTEGER,
            overrun_after_ms INTEGER,
            lost_after_ms INTEGER,
            overdue_since INTEGER
        ) STRICT
    """)
    db.execute("CREATE INDEX jobs_overdue_from ON jobs(overdue_from) WHERE overdue_from IS NOT NULL")
    db.execute("""
        CREATE TABLE runs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
            run_id TEXT,
            status INTEGER NOT NULL,
            started_at INTEGER NOT NULL,
            ended_at INTEGER,
            duration_ms INTEGER,
            exit_code INTEGER,
            heartbeat_at INTEGER NOT NULL,
            late_ms INTEGER,
            overrunning_since INTEGER,
            attribution_id INTEGER REFERENCES attributions(id)
        ) STRICT
    """)
    db.execute("CREATE INDEX runs_job ON runs(job_id, started_at, status, duration_ms)")
    db.execute("CREATE INDEX runs_started ON runs(started_at, job_id, status, duration_ms)")
    db.execute("CREATE UNIQUE INDEX runs_run_id ON runs(job_id, run_id) WHERE run_id IS NOT NULL")
    db.execute("CREATE INDEX runs_open ON runs(job_id) WHERE status = 0")
    db.execute("""
        CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            job_id INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
            run_id INTEGER REFERENCES runs(id) ON DELETE CASCADE,
            kind INTEGER NOT NULL,
            received_at INTEGER NOT NULL,
            time INTEGER NOT NULL,
            run_status INTEGER,
            attribution_id INTEGER REFERENCES attributions(id),
            message TEXT,
            idempotency_key TEXT
        ) STRICT
    """)
    db.execute("CREATE INDEX events_received ON events(received_at, kind, job_id)")
    db.execute("CREATE INDEX events_run ON events(run_id) WHERE run_id IS NOT NULL")
    db.execute("CREATE INDEX events_job ON events(job_id, received_at)")
    db.execute(
        "CREATE INDEX events_idempotency_key ON events(job_id, idempotency_key) WHERE idempotency_key IS NOT NULL"
    )


@migrations()
def schedules_and_incidents(db: Database) -> None:
    """What is learned of a job or said by a person, spells of trouble, and planned silence."""
    for column in (
        "lateness_ms INTEGER",
        "pin TEXT",
        "paused_at INTEGER",
        "paused_until INTEGER",
        "failure_tolerance INTEGER NOT NULL DEFAULT 1",
        "failures_in_row INTEGER NOT NULL DEFAULT 0",
        "failing_since INTEGER",
        "lost_since INTEGER",
        "too_often_since INTEGER",
    ):
        db.execute(f"ALTER TABLE jobs ADD COLUMN {column}")
    # Apart from the jobs: a fit may have tens of kilobytes, and a heartbeat writes its job's row anew.
    db.execute("""
        CREATE TABLE fits (
            job_id INTEGER PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE,
            version INTEGER NOT NULL,
            fit BLOB NOT NULL,
            learned TEXT NOT NULL
        ) STRICT
    """)
    db.execute("ALTER TABLE annotations ADD COLUMN by_service INTEGER NOT NULL DEFAULT 0")
    db.execute("""
        CREATE TABLE incidents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
            kind INTEGER NOT NULL,
            started_at INTEGER NOT NULL,
            ended_at INTEGER,
            annotation_id INTEGER NOT NULL
        ) STRICT
    """)
    db.execute("CREATE UNIQUE INDEX incidents_open ON incidents(job_id, kind) WHERE ended_at IS NULL")
    db.execute("CREATE INDEX incidents_started ON incidents(started_at, kind, job_id)")
    db.execute("CREATE INDEX incidents_job ON incidents(job_id, started_at)")
    db.execute("""
        CREATE TABLE maintenance_windows (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            start_time INTEGER NOT NULL,
            end_time INTEGER NOT NULL,
            title TEXT NOT NULL
        ) STRICT
    """)


@migrations()
def event_messages(db: Database) -> None:
    """A full-text index of trigrams over the messages of events, for CONTAINS.

    It costs several times what the row itself does, so it is written afterwards: `up_to` is the last event that is in
    it. FTS5 stops reading at a NUL: messages that hold one have an index of their own. Ids are given anew once the
    last event is deleted, so `up_to` then steps back.
    """
    db.execute(
        "CREATE VIRTUAL TABLE event_messages USING fts5("
        "message, content = 'events', content_rowid = 'id', columnsize = 0, tokenize = 'trigram')"
    )
    db.execute("CREATE TABLE indexed_messages (up_to INTEGER NOT NULL) STRICT")
    db.execute("INSERT INTO indexed_messages VALUES (0)")
    db.execute("CREATE INDEX events_with_nul ON events(id) WHERE instr(message, char(0)) > 0")
    db.execute("""
        CREATE TRIGGER event_messages_delete AFTER DELETE ON events
        WHEN old.message IS NOT NULL AND old.id <= (SELECT up_to FROM indexed_messages) BEGIN
            INSERT INTO event_messages (event_messages, rowid, message) VALUES ('delete', old.id, old.message);
        END
    """)
    db.execute("""
        CREATE TRIGGER indexed_messages_step_back AFTER DELETE ON events
        WHEN NOT EXISTS (SELECT 1 FROM events WHERE id > old.id) BEGIN
            UPDATE indexed_messages SET up_to = min(up_to, (SELECT coalesce(max(id), 0) FROM events));
        END
    """)


@migrations()
def rolled_up_runs(db: Database) -> None:
    """Runs counted together by the hour of their start, for OQL. See obs.heartbeat.store.rollups, which keeps them.

    An hour is in `rolled_up_hours` with `attempt` NULL as long as what is counted is what the runs say: a change of a
    run takes its hour out again, in the same transaction, and the day goes with it. Hours and days are numbered from
    1970; what lies before is not rolled up, because SQLite rounds towards 0.
    """
    db.execute("CREATE TABLE rolled_up_hours (hour INTEGER PRIMARY KEY, attempt INTEGER) STRICT")
    db.execute("CREATE TABLE rolled_up_days (day INTEGER PRIMARY KEY, attempt INTEGER) STRICT")
    # A row stands where its source's rows do: what is written for runs.started_at can be asked of it.
    started_at = "started_at INTEGER GENERATED ALWAYS AS ({}) VIRTUAL"
    measures = """
        runs INTEGER NOT NULL,
        timed INTEGER NOT NULL,
        total_ms INTEGER,
        least_ms INTEGER,
        most_ms INTEGER
    """
    db.execute(f"""
        CREATE TABLE runs_by_hour (
            hour INTEGER NOT NULL,
            status INTEGER NOT NULL,
            {started_at.format("hour * 3600000")},
            {measures},
            PRIMARY KEY (hour, status)
        ) STRICT, WITHOUT ROWID
    """)
    for unit, length in (("hour", 3600000), ("day", 86400000)):
        db.execute(f"""
            CREATE TABLE runs_by_job_and_{unit} (
                job_id INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
                status INTEGER NOT NULL,
                {unit} INTEGER NOT NULL,
                {started_at.format(f"{unit} * {length}")},
                {measures},
                PRIMARY KEY (job_id, status, {unit})
            ) STRICT, WITHOUT ROWID
        """)
    # In parts, because a query reads no value of more than a megabyte. See obs.storage.packed.
    db.execute(f"""
        CREATE TABLE durations_by_hour (
            hour INTEGER NOT NULL,
            status INTEGER NOT NULL,
            part INTEGER NOT NULL,
            {started_at.format("hour * 3600000")},
            durations BLOB NOT NULL,
            PRIMARY KEY (hour, status, part)
        ) STRICT
    """)
    # Each heartbeat that touches a run asks this: one = after the other, IN would make a table of its own each time.
    is_rolled_up = "EXISTS (SELECT 1 FROM rolled_up_hours WHERE hour = {}.started_at / 3600000)"
    new, old = is_rolled_up.format("new"), is_rolled_up.format("old")
    for event, name, when, rows in (
        ("INSERT", "insert", new, ("new",)),
        ("DELETE", "delete", old, ("old",)),
        (
            "UPDATE OF job_id, status, started_at, duration_ms",
            "update",
            f"{new} OR (old.started_at <> new.started_at AND {old})",
            ("old", "new"),
        ),
    ):
        forget = " ".join(f"DELETE FROM rolled_up_hours WHERE hour = {row}.started_at / 3600000;" for row in rows)
        db.execute(f"CREATE TRIGGER runs_{name} AFTER {event} ON runs WHEN {when} BEGIN {forget} END")
    db.execute("""
        CREATE TRIGGER rolled_up_hours_delete AFTER DELETE ON rolled_up_hours BEGIN
            DELETE FROM rolled_up_days WHERE day = old.hour / 24;
        END
    """)


@migrations()
def revisions_of_jobs(db: Database) -> None:
    """What else than a heartbeat makes a job's expectation one to be worked out anew: each such change is a revision.

    Ids of events are given anew once the last event is deleted, so a job whose last event goes remembers 0, which is
    no event's id; what was learned from that event still is.
    """
    db.execute("ALTER TABLE jobs ADD COLUMN revision INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE jobs ADD COLUMN learned_revision INTEGER NOT NULL DEFAULT 0")
    db.execute("""
        CREATE TRIGGER last_events_delete AFTER DELETE ON events BEGIN
            UPDATE jobs SET last_event_id = 0,
                learned_event_id = CASE WHEN learned_event_id = last_event_id THEN 0 END,
                revision = revision + (learned_event_id IS NOT last_event_id)
            WHERE id = old.job_id AND last_event_id = old.id;
        END
    """)


@migrations()
def messages_without_positions(db: Database) -> None:
    """The index of messages anew, without where in a message a trigram stands: a quarter of the size and of the work.

    And a trigram that is everywhere, such as of a ruler of dashes, is a small list, which FTS5 merges in one go. It is
    filled as new messages are; until it has caught up, CONTAINS reads what it has not seen.
    """
    db.execute("DROP TABLE event_messages")
    db.execute(
        "CREATE VIRTUAL TABLE event_messages USING fts5("
        "message, content = 'events', content_rowid = 'id', columnsize = 0, detail = none, tokenize = 'trigram')"
    )
    db.execute("UPDATE indexed_messages SET up_to = 0")


@migrations()
def renamed_expectations(db: Database) -> None:
    """Rename the columns of a job's expectation to the names in the API and in OQL."""
    for old, new in (
        ("expected_interval_ms", "interval_ms"),
        ("next_expected", "expected_at"),
        ("overdue_from", "overdue_at"),
        ("lateness_ms", "grace_ms"),
    ):
        db.execute(f"ALTER TABLE jobs RENAME COLUMN {old} TO {new}")
    db.execute("DROP INDEX jobs_overdue_from")
    db.execute("CREATE INDEX jobs_overdue_at ON jobs(overdue_at) WHERE overdue_at IS NOT NULL")


@migrations()
def normalized_names_of_jobs(db: Database) -> None:
    """Names of jobs in the Unicode form NFC, unless another job has that name already."""
    db.register_function(partial(unicodedata.normalize, "NFC"), deterministic=True, name="nfc")
    db.execute("UPDATE OR IGNORE jobs SET name = nfc(name) WHERE name <> nfc(name)")


@migrations()
def audit_log(db: Database) -> None:
    db.execute("""
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY,
            time INTEGER NOT NULL,
            actor TEXT NOT NULL,
            action TEXT NOT NULL,
            object TEXT NOT NULL,
            address TEXT NOT NULL
        ) STRICT
    """)
    db.execute("CREATE INDEX audit_time ON audit(time)")


@migrations()
def last_use_of_attributions(db: Database) -> None:
    """When each attribution was last used, so that its names can be deleted when no stored heartbeat has them.

    The index is not unique any more, because attributions without names stay.
    """
    db.execute("ALTER TABLE attributions ADD COLUMN last_used_at INTEGER")
    db.execute("UPDATE attributions SET last_used_at = (SELECT max(received_at) FROM events)")
    db.execute("DROP INDEX attributions_values")
    db.execute(
        "CREATE INDEX attributions_values "
        "ON attributions(coalesce(host, ''), coalesce(service, ''), coalesce(project, ''))"
    )


@migrations()
def changes_of_jobs(db: Database) -> None:
    """Number the changes to jobs, so that the overview reads only the jobs that changed.

    Heartbeats are not numbered: the ids of events number them already. So no trigger runs for the columns that a
    heartbeat sets. A statement that sets only those columns sets `changed` too, to any value.
    """
    db.execute("CREATE TABLE job_changes (last INTEGER NOT NULL, last_deleted INTEGER NOT NULL) STRICT")
    db.execute("INSERT INTO job_changes VALUES (0, 0)")
    db.execute("ALTER TABLE jobs ADD COLUMN changed INTEGER NOT NULL DEFAULT 0")
    db.execute("CREATE INDEX jobs_changed ON jobs(changed)")
    db.execute("""
        CREATE TRIGGER jobs_changed AFTER UPDATE OF name, pin, paused_at, paused_until, interval_ms, expected_at,
            overdue_at, overrun_after_ms, failure_tolerance, learned_event_id, changed ON jobs
        BEGIN
            UPDATE job_changes SET last = last + 1;
            UPDATE jobs SET changed = (SELECT last FROM job_changes) WHERE id = new.id;
        END
    """)
    db.execute("""
        CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
            UPDATE job_changes SET last = last + 1, last_deleted = last + 1;
        END
    """)


@migrations()
def first_heartbeats_and_recent_durations(db: Database) -> None:
    """The time of a job's first heartbeat, and the average duration of recent successful runs instead of all runs."""
    db.execute("ALTER TABLE jobs ADD COLUMN first_heartbeat_at INTEGER NOT NULL DEFAULT 0")
    db.execute("""
        UPDATE jobs SET first_heartbeat_at = min(
            created_at,
            last_heartbeat_at,
            coalesce((SELECT min(started_at) FROM runs WHERE job_id = jobs.id), created_at)
        )
    """)
    db.execute("""
        UPDATE jobs SET (timed_run_count, total_duration_ms) = (
            SELECT count(*), coalesce(sum(duration_ms), 0) FROM (
                SELECT duration_ms FROM runs
                WHERE job_id = jobs.id AND status = 1 AND duration_ms IS NOT NULL
                ORDER BY started_at DESC LIMIT 20
            )
        )
    """)


@migrations()
def ping_urls_of_jobs(db: Database) -> None:
    """The UUID in the ping URL of a job, and whether a person has decided on its pin, which clients then keep."""
    db.execute("""
        CREATE TABLE ping_urls (
            job_id INTEGER PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE,
            uuid TEXT NOT NULL UNIQUE
        ) STRICT
    """)
    db.execute("ALTER TABLE jobs ADD COLUMN pinned_by_person INTEGER NOT NULL DEFAULT 0")
    db.execute("UPDATE jobs SET pinned_by_person = 1 WHERE pin IS NOT NULL")


@migrations()
def runs_by_series(db: Database) -> None:
    """Rollups of runs by everything that has few values: a series is the runs of a job in one place with one outcome.

    They replace those by job and status. All durations stand beside their counts, sorted (see obs.storage.packed).
    """
    db.execute("DELETE FROM rolled_up_hours")
    for table in ("runs_by_hour", "runs_by_job_and_hour", "runs_by_job_and_day", "durations_by_hour"):
        db.execute(f"DROP TABLE {table}")
    db.execute("""
        CREATE TABLE series (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
            status INTEGER NOT NULL,
            attribution_id INTEGER,
            exit_code INTEGER
        ) STRICT
    """)
    db.execute("""
        CREATE UNIQUE INDEX series_key ON series(
            job_id, status, ifnull(attribution_id, 0), ifnull(exit_code, -9223372036854775807)
        )
    """)
    for table, key, unit, length in (
        ("totals_by_hour", "status INTEGER NOT NULL", "hour", 3600000),
        ("series_by_hour", "series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE", "hour", 3600000),
        ("series_by_day", "series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE", "day", 86400000),
    ):
        db.execute(f"""
            CREATE TABLE {table} (
                {key},
                {unit} INTEGER NOT NULL,
                started_at INTEGER GENERATED ALWAYS AS ({unit} * {length}) VIRTUAL,
                runs INTEGER NOT NULL,
                timed INTEGER NOT NULL,
                total_ms INTEGER,
                least_ms INTEGER,
                most_ms INTEGER,
                first_at INTEGER NOT NULL,
                last_at INTEGER NOT NULL,
                durations BLOB,
                PRIMARY KEY ({key.partition(" ")[0]}, {unit})
            ) STRICT, WITHOUT ROWID
        """)
    db.execute("DROP TRIGGER runs_update")
    is_rolled_up = "EXISTS (SELECT 1 FROM rolled_up_hours WHERE hour = {}.started_at / 3600000)"
    new, old = is_rolled_up.format("new"), is_rolled_up.format("old")
    db.execute(f"""
        CREATE TRIGGER runs_update
        AFTER UPDATE OF job_id, status, started_at, duration_ms, exit_code, attribution_id ON runs
        WHEN {new} OR (old.started_at <> new.started_at AND {old}) BEGIN
            DELETE FROM rolled_up_hours WHERE hour = old.started_at / 3600000;
            DELETE FROM rolled_up_hours WHERE hour = new.started_at / 3600000;
        END
    """)


@migrations()
def memories_of_jobs(db: Database) -> None:
    """The heartbeats that the learner remembers of a job. It is filled from the runs when the job is next learned."""
    db.execute("""
        CREATE TABLE memories (
            job_id INTEGER PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE,
            memory BLOB NOT NULL
        ) STRICT
    """)


@migrations()
def unknown_times_of_jobs(db: Database) -> None:
    """When nobody can know whether a job ran: its past pauses and, for all jobs (NULL), downtime and clock jumps."""
    db.execute("""
        CREATE TABLE unknown_times (
            job_id INTEGER REFERENCES jobs(id) ON DELETE CASCADE,
            start_time INTEGER NOT NULL,
            end_time INTEGER NOT NULL
        ) STRICT
    """)
    db.execute("CREATE INDEX unknown_times_job ON unknown_times(job_id, end_time)")
    db.execute("""
        CREATE TRIGGER jobs_paused_again AFTER UPDATE OF paused_at ON jobs WHEN old.paused_at < new.paused_at BEGIN
            INSERT INTO unknown_times (job_id, start_time, end_time)
            VALUES (old.id, old.paused_at, min(ifnull(old.paused_until, new.paused_at), new.paused_at));
        END
    """)


@migrations()
def an_index_of_counts_by_day(db: Database) -> None:
    """All columns of a cell but its durations, which take most of the space: so that counts and sums read less."""
    columns = "runs, timed, total_ms, least_ms, most_ms, first_at, last_at"
    db.execute(f"CREATE INDEX series_by_day_counts ON series_by_day(series_id, day, {columns})")


@migrations()
def deliveries(db: Database) -> None:
    """Messages about incidents, each for one channel of the control file: an outbox.

    A delivery is written in the transaction that opens or ends its incidents. `reminder` marks one that waits for its
    incidents to last; a delivery with a `notice` has no incidents.
    """
    db.execute("""
        CREATE TABLE deliveries (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            channel_id INTEGER NOT NULL,
            channel TEXT NOT NULL,
            state TEXT NOT NULL,
            reminder INTEGER NOT NULL,
            title TEXT,
            notice TEXT,
            created_at INTEGER NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            first_attempt_at INTEGER,
            last_attempt_at INTEGER,
            next_attempt_at INTEGER,
            sent_at INTEGER,
            answer TEXT
        ) STRICT
    """)
    for name, columns in (
        ("created", "(created_at, state, channel)"),
        ("next", "(channel_id, id, next_attempt_at) WHERE next_attempt_at IS NOT NULL"),
        ("news", "(channel_id, created_at) WHERE NOT reminder AND notice IS NULL"),
        ("states", "(state, channel_id)"),
    ):
        db.execute(f"CREATE INDEX deliveries_{name} ON deliveries{columns}")
    db.execute("""
        CREATE TABLE delivery_incidents (
            delivery_id INTEGER NOT NULL REFERENCES deliveries(id) ON DELETE CASCADE,
            incident_id INTEGER NOT NULL REFERENCES incidents(id) ON DELETE CASCADE,
            news INTEGER NOT NULL,
            PRIMARY KEY (delivery_id, incident_id)
        ) STRICT, WITHOUT ROWID
    """)
    db.execute("CREATE INDEX delivery_incidents_incident ON delivery_incidents(incident_id)")


@migrations()
def counted_runs(db: Database) -> None:
    """Runs of a job in numbers: those of an hour that is rolled up together, others alone. And all of them alone.

    `started_at` is the start of the first. `gaps` are the times between the hours that are rolled up.
    """
    db.execute("""
        CREATE VIEW counted_runs AS
        WITH gaps AS (
            SELECT 0 AS start, (SELECT min(hour) FROM rolled_up_hours WHERE attempt IS NULL) AS end
            UNION ALL
            SELECT hour + 1, (SELECT min(hour) FROM rolled_up_hours WHERE hour > last.hour AND attempt IS NULL)
            FROM rolled_up_hours AS last WHERE attempt IS NULL AND NOT EXISTS
                (SELECT 1 FROM rolled_up_hours WHERE hour = last.hour + 1 AND attempt IS NULL)
        )
        SELECT job_id, hour, first_at AS started_at, status, runs, timed, total_ms
        FROM series CROSS JOIN series_by_hour AS cells ON cells.series_id = series.id
        WHERE EXISTS (SELECT 1 FROM rolled_up_hours WHERE hour = cells.hour AND attempt IS NULL)
        UNION ALL
        SELECT job_id, started_at / 3600000, started_at, status, 1, duration_ms IS NOT NULL, duration_ms
        FROM gaps CROSS JOIN runs
        ON started_at >= gaps.start * 3600000 AND started_at < ifnull(gaps.end * 3600000, 9223372036854775807)
    """)
    db.execute("""
        CREATE VIEW single_runs AS
        SELECT job_id, started_at / 3600000 AS hour, started_at, status,
            1 AS runs, duration_ms IS NOT NULL AS timed, duration_ms AS total_ms
        FROM runs
    """)


@migrations()
def events_outside_of_runs(db: Database) -> None:
    """For the page of a job, which shows the last ones: there may be none among hundreds of thousands of events."""
    db.execute("CREATE INDEX events_outside_of_runs ON events(job_id, received_at) WHERE run_id IS NULL")


@migrations()
def outcomes_counted_by_job(db: Database) -> None:
    """How many runs of a job ended how, its last success and the duration of its last run: deleting runs keeps them."""
    for name in ("success_count", "failed_count", "lost_count"):
        db.execute(f"ALTER TABLE jobs ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")
    for name in ("last_success_at", "last_duration_ms"):
        db.execute(f"ALTER TABLE jobs ADD COLUMN {name} INTEGER")
    db.execute("""
        UPDATE jobs SET (success_count, failed_count, lost_count, last_success_at) = (
            SELECT count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2),
                count(*) FILTER (WHERE status = 3),
                max(started_at + coalesce(duration_ms, 0)) FILTER (WHERE status = 1)
            FROM runs WHERE job_id = jobs.id
        ), last_duration_ms = (
            SELECT duration_ms FROM runs WHERE job_id = jobs.id AND duration_ms IS NOT NULL
            ORDER BY started_at DESC LIMIT 1
        )
    """)


@migrations()
def where_learning_begins(db: Database) -> None:
    """Heartbeats of a job from before this time are not learned from: somebody said that its schedule has changed."""
    db.execute("ALTER TABLE jobs ADD COLUMN schedule_changed_at INTEGER")


@migrations()
def events_of_deliveries(db: Database) -> None:
    """The event of a message that is not about incidents."""
    db.execute("ALTER TABLE deliveries ADD COLUMN event TEXT")


@migrations()
def alerts_on_queries(db: Database) -> None:
    """Alerts on statements of OQL. An incident is about a job or, with `subject` in words, about a group of an alert.

    The table of incidents is made anew, as a column cannot lose NOT NULL. Dropping the old one deletes what refers to
    it, so that is put aside.
    """
    db.execute("""
        CREATE TABLE alerts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            definition TEXT NOT NULL
        ) STRICT
    """)
    db.execute("""
        CREATE TABLE all_incidents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id INTEGER REFERENCES jobs(id) ON DELETE CASCADE,
            alert_id INTEGER,
            alert_group TEXT,
            subject TEXT,
            value REAL,
            kind INTEGER NOT NULL,
            started_at INTEGER NOT NULL,
            ended_at INTEGER,
            annotation_id INTEGER NOT NULL
        ) STRICT
    """)
    columns = "id, job_id, kind, started_at, ended_at, annotation_id"
    db.execute(f"INSERT INTO all_incidents ({columns}) SELECT {columns} FROM incidents")
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'all_incidents'")
    db.execute("INSERT INTO sqlite_sequence SELECT 'all_incidents', seq FROM sqlite_sequence WHERE name = 'incidents'")
    db.execute("CREATE TABLE kept AS SELECT * FROM delivery_incidents")
    db.execute("DROP TABLE incidents")
    db.execute("ALTER TABLE all_incidents RENAME TO incidents")
    db.execute("INSERT INTO delivery_incidents SELECT * FROM kept")
    db.execute("DROP TABLE kept")
    db.execute("CREATE UNIQUE INDEX incidents_open ON incidents(job_id, kind) WHERE ended_at IS NULL")
    db.execute("CREATE UNIQUE INDEX incidents_firing ON incidents(alert_id, alert_group) WHERE ended_at IS NULL")
    db.execute("CREATE INDEX incidents_started ON incidents(started_at, kind, job_id)")
    db.execute("CREATE INDEX incidents_job ON incidents(job_id, started_at)")
    db.execute("CREATE INDEX incidents_alert ON incidents(alert_id, started_at) WHERE alert_id IS NOT NULL")


@migrations()
def windows_of_some_jobs(db: Database) -> None:
    """Maintenance windows for some jobs, and recurring ones, whose row has the times of one occurrence.

    A window that is deleted, and an occurrence that is over, become unknown times of the jobs that match: of those that
    match all that is named. The view has the windows and the unknown times by job.
    """
    names = ("job_prefix", "host", "service", "project")
    for table in ("maintenance_windows", "unknown_times"):
        for name in names:
            db.execute(f"ALTER TABLE {table} ADD COLUMN {name} TEXT")
    for column in ("cron TEXT", "timezone TEXT", "duration_seconds INTEGER"):
        db.execute(f"ALTER TABLE maintenance_windows ADD COLUMN {column}")
    columns = f"start_time, end_time, {', '.join(names)}"
    matches = " AND ".join(f"(w.{name} IS NULL OR w.{name} = a.{name})" for name in names[1:])
    db.execute(f"""
        CREATE VIEW unknown_times_by_job AS
        SELECT jobs.id AS job_id, w.window_id, w.start_time, w.end_time FROM (
            SELECT id AS window_id, {columns} FROM maintenance_windows
            UNION ALL SELECT NULL, {columns} FROM unknown_times WHERE job_id IS NULL
        ) AS w JOIN jobs LEFT JOIN attributions AS a ON a.id = jobs.attribution_id
        WHERE (w.job_prefix IS NULL OR substr(jobs.name, 1, length(w.job_prefix)) = w.job_prefix) AND {matches}
        UNION ALL SELECT job_id, NULL, start_time, end_time FROM unknown_times WHERE job_id IS NOT NULL
    """)
    for name, event, condition in (
        ("deleted", "DELETE", "old.end_time > old.start_time"),
        ("recurs", "UPDATE OF start_time", "old.end_time <= new.start_time"),
    ):
        db.execute(f"""
            CREATE TRIGGER maintenance_window_{name} AFTER {event} ON maintenance_windows WHEN {condition} BEGIN
                INSERT INTO unknown_times ({columns}) VALUES (old.{columns.replace(", ", ", old.")});
            END
        """)


@migrations()
def verdicts_on_incidents(db: Database) -> None:
    """Who has acknowledged an incident, whether it was right, and where its job is waited for longer since then."""
    for column in ("acknowledged_at INTEGER", "acknowledged_by TEXT", "verdict TEXT"):
        db.execute(f"ALTER TABLE incidents ADD COLUMN {column}")
    db.execute("ALTER TABLE jobs ADD COLUMN waits TEXT")


@migrations()
def totals_by_five_minutes(db: Database) -> None:
    """Totals of runs by five minutes, and an index of runs by their start that has `late_ms` too.

    Hours are rolled up again, because there are no totals of them by five minutes yet.
    """
    db.execute("DELETE FROM rolled_up_hours")
    db.execute("""
        CREATE TABLE totals_by_five_minutes (
            status INTEGER NOT NULL,
            five_minutes INTEGER NOT NULL,
            started_at INTEGER GENERATED ALWAYS AS (five_minutes * 300000) VIRTUAL,
            runs INTEGER NOT NULL,
            timed INTEGER NOT NULL,
            total_ms INTEGER,
            least_ms INTEGER,
            most_ms INTEGER,
            first_at INTEGER NOT NULL,
            last_at INTEGER NOT NULL,
            durations BLOB,
            PRIMARY KEY (status, five_minutes)
        ) STRICT, WITHOUT ROWID
    """)
    db.execute("DROP INDEX runs_started")
    db.execute("CREATE INDEX runs_started ON runs(started_at, job_id, status, duration_ms, late_ms)")


@migrations()
def series_by_week(db: Database) -> None:
    """Rollups of runs by the week, as those by the day: weeks begin on Thursdays, as 1970 did."""
    db.execute("CREATE TABLE rolled_up_weeks (week INTEGER PRIMARY KEY, attempt INTEGER) STRICT")
    columns = "runs, timed, total_ms, least_ms, most_ms, first_at, last_at"
    db.execute("""
        CREATE TABLE series_by_week (
            series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
            week INTEGER NOT NULL,
            started_at INTEGER GENERATED ALWAYS AS (week * 604800000) VIRTUAL,
            runs INTEGER NOT NULL,
            timed INTEGER NOT NULL,
            total_ms INTEGER,
            least_ms INTEGER,
            most_ms INTEGER,
            first_at INTEGER NOT NULL,
            last_at INTEGER NOT NULL,
            durations BLOB,
            PRIMARY KEY (series_id, week)
        ) STRICT, WITHOUT ROWID
    """)
    db.execute(f"CREATE INDEX series_by_week_counts ON series_by_week(series_id, week, {columns})")
    db.execute("""
        CREATE TRIGGER rolled_up_days_delete AFTER DELETE ON rolled_up_days BEGIN
            DELETE FROM rolled_up_weeks WHERE week = old.day / 7;
        END
    """)


@migrations()
def schedules_of_hosts(db: Database) -> None:
    """What is learned and expected of the hosts of a job that keep a schedule each.

    `jobs.by_host` says whether the expectation of a job follows from these. An incident may be about a host of a job.
    """
    db.execute("""
        CREATE TABLE host_schedules (
            job_id INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
            host TEXT NOT NULL,
            version INTEGER NOT NULL,
            memory BLOB NOT NULL,
            fit BLOB NOT NULL,
            last_heartbeat_at INTEGER NOT NULL,
            expected_at INTEGER,
            overdue_at INTEGER,
            PRIMARY KEY (job_id, host)
        ) STRICT
    """)
    db.execute("CREATE INDEX host_schedules_overdue_at ON host_schedules(overdue_at) WHERE overdue_at IS NOT NULL")
    db.execute("""
        CREATE TRIGGER host_schedules_excused AFTER UPDATE OF overdue_at ON host_schedules BEGIN
            UPDATE jobs SET revision = revision + 1 WHERE id = new.job_id;
        END
    """)
    db.execute("""
        CREATE TRIGGER host_schedules_ended AFTER INSERT ON host_schedules WHEN new.last_heartbeat_at = 0 BEGIN
            DELETE FROM host_schedules WHERE job_id = new.job_id AND host = new.host;
        END
    """)
    db.execute("ALTER TABLE jobs ADD COLUMN by_host INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE incidents ADD COLUMN host TEXT NOT NULL DEFAULT ''")
    db.execute("DROP INDEX incidents_open")
    db.execute("CREATE UNIQUE INDEX incidents_open ON incidents(job_id, kind, host) WHERE ended_at IS NULL")
    db.execute("""
        CREATE TRIGGER host_is_not_waited_for AFTER UPDATE OF verdict ON incidents
        WHEN new.verdict = 'false_alarm' AND new.host <> '' AND new.ended_at IS NULL BEGIN
            DELETE FROM host_schedules WHERE job_id = new.job_id AND host = new.host;
            UPDATE jobs SET revision = revision + 1 WHERE id = new.job_id;
        END
    """)
    columns = "jobs.id AS job_id, '{}' AS kind, {} AS host, jobs.name AS job, {} AS since"
    columns += ", jobs.paused_at, jobs.paused_until FROM jobs"
    since = [
        columns.format(kind, "''", f"{kind}_since") + f" WHERE {kind}_since IS NOT NULL AND {condition}"
        for kind, condition in (
            ("overdue", "NOT by_host"),
            ("lost", "1"),
            ("too_often", "1"),
            ("failing", "failures_in_row >= failure_tolerance"),
        )
    ]
    of_hosts = columns.format("overdue", "h.host", "h.overdue_at")
    of_runs = columns.format("overrunning", "''", "min(runs.overrunning_since)")
    db.execute(f"""
        CREATE VIEW problems AS SELECT {" UNION ALL SELECT ".join(since)}
        UNION ALL SELECT {of_hosts} JOIN host_schedules AS h ON h.job_id = jobs.id
        WHERE jobs.by_host AND jobs.overdue_at IS NOT NULL AND h.overdue_at IS NOT NULL
        UNION ALL SELECT {of_runs} JOIN runs ON runs.job_id = jobs.id
        WHERE runs.status = 0 AND runs.overrunning_since IS NOT NULL GROUP BY jobs.id
    """)
    db.execute("""
        CREATE TRIGGER host_schedules_forgotten AFTER DELETE ON fits BEGIN
            DELETE FROM host_schedules WHERE job_id = old.job_id;
        END
    """)


@migrations()
def hosts_end_in_code(db: Database) -> None:
    """What is stored of a host that has ended is deleted where the others are stored."""
    db.execute("DROP TRIGGER host_schedules_ended")


@migrations()
def problems_are_found_in_code(db: Database) -> None:
    """What is wrong with a job is found where expectations are stored, which knows the numbers of statuses."""
    db.execute("DROP VIEW problems")


@migrations()
def hosts_survive_corrections(db: Database) -> None:
    """A correction after a wrong clock forgets the fits of hosts, and moves what is expected of them.

    Their heartbeats are kept, or a host that is silent would never be found again. Only an excuse has them learned
    again.
    """
    db.execute("DROP TRIGGER host_schedules_forgotten")
    db.execute("DROP TRIGGER host_schedules_excused")
    db.execute("""
        CREATE TRIGGER host_schedules_forgotten AFTER DELETE ON fits BEGIN
            UPDATE host_schedules SET version = 0 WHERE job_id = old.job_id;
        END
    """)
    db.execute("""
        CREATE TRIGGER host_schedules_excused AFTER UPDATE OF overdue_at ON host_schedules
        WHEN old.overdue_at IS NOT NULL AND new.overdue_at IS NULL BEGIN
            UPDATE jobs SET revision = revision + 1 WHERE id = new.job_id;
        END
    """)


@migrations()
def series_of_events(db: Database) -> None:
    """Rollups of events beside those of runs, of how late runs started, and of the squares of all values.

    The tables of rollups are created again: a series with a `kind` has events, whose values are the lengths of their
    messages, and a series without a job the rows of all jobs, which replaces the tables of totals. Hours are rolled up
    again, because no rollup has the new columns.
    """
    db.execute("DELETE FROM rolled_up_hours")
    units = {"hour": 3600000, "day": 86400000, "week": 604800000}
    db.execute("DROP VIEW counted_runs")
    for table in (*(f"series_by_{unit}" for unit in units), "series", "totals_by_hour", "totals_by_five_minutes"):
        db.execute(f"DROP TABLE {table}")
    db.execute("""
        CREATE TABLE series (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id INTEGER REFERENCES jobs(id) ON DELETE CASCADE,
            status INTEGER,
            attribution_id INTEGER,
            exit_code INTEGER,
            kind INTEGER
        ) STRICT
    """)
    parts = ("job_id", "status", "attribution_id", "exit_code", "kind")
    key = ", ".join(f"ifnull({part}, -9223372036854775807)" for part in parts)
    db.execute(f"CREATE UNIQUE INDEX series_key ON series({key})")
    db.execute("CREATE INDEX series_job ON series(job_id)")  # for its foreign key
    numbers = ("total", "least", "most", "squares_high", "squares_low")
    for unit, length in {**units, "five_minutes": 300000}.items():
        values = [
            f"{prefix}valued INTEGER NOT NULL, {', '.join(f'{prefix}{name} INTEGER' for name in numbers)}"
            for prefix in ("", "late_")
        ]
        db.execute(f"""
            CREATE TABLE series_by_{unit} (
                series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
                {unit} INTEGER NOT NULL,
                started_at INTEGER GENERATED ALWAYS AS ({unit} * {length}) VIRTUAL,
                runs INTEGER NOT NULL,
                first_at INTEGER NOT NULL,
                last_at INTEGER NOT NULL,
                {", ".join(values)},
                sorted BLOB,
                late_sorted BLOB,
                PRIMARY KEY (series_id, {unit})
            ) STRICT, WITHOUT ROWID
        """)
    counts = ["runs", "first_at", "last_at"]
    counts += [f"{prefix}{name}" for prefix in ("", "late_") for name in ("valued", *numbers)]
    for unit in ("day", "week"):
        columns = f"series_id, {unit}, {', '.join(counts)}"
        db.execute(f"CREATE INDEX series_by_{unit}_counts ON series_by_{unit}({columns})")
    db.execute("""
        CREATE VIEW counted_runs AS
        WITH gaps AS (
            SELECT 0 AS start, (SELECT min(hour) FROM rolled_up_hours WHERE attempt IS NULL) AS end
            UNION ALL
            SELECT hour + 1, (SELECT min(hour) FROM rolled_up_hours WHERE hour > last.hour AND attempt IS NULL)
            FROM rolled_up_hours AS last WHERE attempt IS NULL AND NOT EXISTS
                (SELECT 1 FROM rolled_up_hours WHERE hour = last.hour + 1 AND attempt IS NULL)
        )
        SELECT job_id, hour, first_at AS started_at, status, runs, valued AS timed, total AS total_ms
        FROM series CROSS JOIN series_by_hour AS cells ON cells.series_id = series.id
        WHERE job_id IS NOT NULL AND kind IS NULL
            AND EXISTS (SELECT 1 FROM rolled_up_hours WHERE hour = cells.hour AND attempt IS NULL)
        UNION ALL
        SELECT job_id, started_at / 3600000, started_at, status, 1, duration_ms IS NOT NULL, duration_ms
        FROM gaps CROSS JOIN runs
        ON started_at >= gaps.start * 3600000 AND started_at < ifnull(gaps.end * 3600000, 9223372036854775807)
    """)
    is_rolled_up = "EXISTS (SELECT 1 FROM rolled_up_hours WHERE hour = {}.{} / 3600000)"
    forget = "DELETE FROM rolled_up_hours WHERE hour = {}.{} / 3600000;"
    for table, time, columns in (
        ("runs", "started_at", "job_id, status, started_at, duration_ms, exit_code, attribution_id, late_ms"),
        ("events", "received_at", "job_id, kind, received_at, attribution_id, message"),
    ):
        for event, rows in (("insert", ["new"]), ("delete", ["old"]), (f"update OF {columns}", ["old", "new"])):
            name = f"{table}_{event.partition(' ')[0]}"
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
            changed = is_rolled_up.format(rows[-1], time)
            if len(rows) > 1:
                changed += f" OR (old.{time} <> new.{time} AND {is_rolled_up.format('old', time)})"
            forgets = " ".join(forget.format(row, time) for row in rows)
            db.execute(f"CREATE TRIGGER {name} AFTER {event} ON {table} WHEN {changed} BEGIN {forgets} END")


@migrations()
def counts_of_hours(db: Database) -> None:
    """Two indexes with all columns of the cells of hours but their values, of which a page holds few cells.

    One is in the order of time, for a few hours of all series. The other is for the series of all jobs, which get
    negative ids, so that it can be limited to them.
    """
    db.execute("PRAGMA defer_foreign_keys = ON")
    of_all = "SELECT id, -1 - ifnull(status, 8 + kind) AS new_id FROM series WHERE job_id IS NULL AND id > 0"
    for unit in ("hour", "five_minutes"):
        update = f"UPDATE series_by_{unit} SET series_id = of_all.new_id FROM ({of_all}) AS of_all"
        db.execute(f"{update} WHERE series_id = of_all.id")
    db.execute("UPDATE series SET id = -1 - ifnull(status, 8 + kind) WHERE job_id IS NULL AND id > 0")
    names = ("valued", "total", "least", "most", "squares_high", "squares_low")
    counts = ", ".join(["runs", "first_at", "last_at", *names, *(f"late_{name}" for name in names)])
    db.execute(f"CREATE INDEX series_by_hour_counts ON series_by_hour(hour, series_id, {counts})")
    of_all = f"series_of_all_by_hour ON series_by_hour(series_id, hour, {counts})"
    db.execute(f"CREATE INDEX {of_all} WHERE series_id < 0")


@migrations()
def failures_of_jobs(db: Database) -> None:
    """When a job failed last, which a success that is older does not end."""
    db.execute("ALTER TABLE jobs ADD COLUMN last_failure_at INTEGER")


@migrations()
def series_of_places(db: Database) -> None:
    """Roll up all hours again, because no hour has cells of the series of places."""
    db.execute("DELETE FROM rolled_up_hours")  # and of days and weeks, by triggers


@migrations()
def hours_in_order_of_time(db: Database) -> None:
    """Store the cells of an hour side by side, and index their counts by series.

    A window begins and ends within a day, so each statement reads some hours of all series. The cells were in the order
    of their series, in which each hour of a series took a page.
    """
    (view,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'counted_runs'").fetchone()
    db.execute("DROP VIEW counted_runs")
    numbers = ("total", "least", "most", "squares_high", "squares_low")
    kinds = ("", "late_")
    values = (
        f"{kind}valued INTEGER NOT NULL, {', '.join(f'{kind}{name} INTEGER' for name in numbers)}" for kind in kinds
    )
    db.execute(f"""
        CREATE TABLE cells_of_hours (
            hour INTEGER NOT NULL,
            series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
            runs INTEGER NOT NULL,
            first_at INTEGER NOT NULL,
            last_at INTEGER NOT NULL,
            {", ".join(values)},
            sorted BLOB,
            late_sorted BLOB,
            PRIMARY KEY (hour, series_id)
        ) STRICT, WITHOUT ROWID
    """)
    counts = ", ".join(
        ["runs", "first_at", "last_at", *(kind + name for kind in kinds for name in ("valued", *numbers))]
    )
    columns = f"hour, series_id, {counts}, sorted, late_sorted"
    db.execute(f"INSERT INTO cells_of_hours ({columns}) SELECT {columns} FROM series_by_hour ORDER BY 1, 2")
    db.execute("DROP TABLE series_by_hour")
    db.execute("ALTER TABLE cells_of_hours RENAME TO series_by_hour")
    db.execute(f"CREATE INDEX series_by_hour_counts ON series_by_hour(series_id, hour, {counts})")
    db.execute(view)


@migrations()
def places_in_order_of_time(db: Database) -> None:
    """Find the place and the exit code of the runs in a window in its index: most rollups are too coarse for a chart of
    a day by host, and reading each row takes up to twice as long.
    """
    db.execute("DROP INDEX runs_started")
    columns = "started_at, job_id, status, duration_ms, late_ms, attribution_id, exit_code"
    db.execute(f"CREATE INDEX runs_started ON runs({columns})")


@migrations()
def days_and_weeks_in_order_of_time(db: Database) -> None:
    """Store the cells of a day or a week side by side, too: in the order of their series, each took a page or two."""
    names = ("valued", "total", "least", "most", "squares_high", "squares_low")
    counts = ["runs", "first_at", "last_at", *names, *(f"late_{name}" for name in names)]
    needed = ("runs", "first_at", "last_at", "valued", "late_valued")
    definitions = ", ".join(f"{name} INTEGER{' NOT NULL' if name in needed else ''}" for name in counts)
    for unit in ("day", "week"):
        db.execute(f"""
            CREATE TABLE cells_in_order (
                {unit} INTEGER NOT NULL,
                series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
                {definitions},
                sorted BLOB,
                late_sorted BLOB,
                PRIMARY KEY ({unit}, series_id)
            ) STRICT, WITHOUT ROWID
        """)
        columns = f"{unit}, series_id, {', '.join(counts)}, sorted, late_sorted"
        db.execute(f"INSERT INTO cells_in_order ({columns}) SELECT {columns} FROM series_by_{unit} ORDER BY 1, 2")
        db.execute(f"DROP TABLE series_by_{unit}")
        db.execute(f"ALTER TABLE cells_in_order RENAME TO series_by_{unit}")
        db.execute(f"CREATE INDEX series_by_{unit}_counts ON series_by_{unit}(series_id, {unit}, {', '.join(counts)})")
