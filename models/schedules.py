"""The schedule's rows: entries, their runs, and which jobs a run counts (spec, section 6).

Nothing of the schedule lives in memory: whoever ticks reads these rows, decides, and writes them in one transaction.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

from models.base import BigId, Json, UtcDateTime, metadata

#: A named periodic piece of work and how it stands.
entries = Table(
    "entries",
    metadata,
    Column("name", String(100), primary_key=True),
    # the rules that the row was planned under, as a document: other ones are an edit, which fires nothing past (rule S2)
    Column("rules", Json, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("status", String(10), nullable=False),
    Column("due_at", UtcDateTime),
    # the rest of the plan that changes in one piece with `due_at`: due_for, occurrence, try_no, failures, due_date, …
    Column("plan", Json, nullable=False),
    # the run under way, NULL if there is none
    Column("run_id", BigInteger),
    Column("stat_date", Date),
    Column("progress", Json),
    Column("last_run_at", UtcDateTime),
    Column("last_success_at", UtcDateTime),
    Column("last_outcome", Json),
    # when it is told that nothing has succeeded for too long, NULL if never (rule J15)
    Column("stale_at", UtcDateTime),
    Column("updated_at", UtcDateTime, nullable=False),
    CheckConstraint("status IN ('pending', 'running', 'done', 'failed', 'deferred')", name="status"),
)
Index("ix_entries_due_at", entries.c.due_at)

#: What became of each occurrence: one row a try, those that never started anything included.
runs = Table(
    "runs",
    metadata,
    Column("run_id", BigId, primary_key=True, autoincrement=True),
    Column("entry", String(100), nullable=False),
    Column("occurrence", UtcDateTime, nullable=False),
    Column("try_no", Integer, nullable=False),
    Column("stat_date", Date, nullable=False),
    Column("source", String(20), nullable=False),
    Column("force", Boolean, nullable=False, server_default=false()),
    # failed tries of the occurrence before this one
    Column("failures", Integer, nullable=False, server_default="0"),
    # NULL of what was decided without a run: skipped, deferred, made up by another one
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    # success, failed, skipped, deferred, made_up; NULL while it runs
    Column("outcome", String(10)),
    Column("reason", Text, nullable=False, server_default=""),
    Column("until", UtcDateTime),
    Column("by_run", BigInteger),
    # the jobs that the run counts, and at its end what they came to: {"done", "failed", "total", …}
    Column("total", Integer, nullable=False, server_default="0"),
    Column("progress", Json),
    Column("details", Json),
    Column("recorded_at", UtcDateTime, nullable=False),
    UniqueConstraint("entry", "occurrence", "try_no"),
    CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name="ended"),
)
OPEN = text("outcome IS NULL")
Index("ix_runs_open", runs.c.entry, postgresql_where=OPEN, sqlite_where=OPEN)
Index("ix_runs_entry_run_id", runs.c.entry, runs.c.run_id)
Index("ix_runs_recorded_at", runs.c.recorded_at)

#: Which job answers for which target of a run; how far the run is, the jobs themselves say.
run_job = Table(
    "run_job",
    metadata,
    Column("run_id", BigInteger, nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("target_code", String(200)),
    Column("site_code", String(200)),
    PrimaryKeyConstraint("run_id", "job_id"),
)
Index("ix_run_job_job_id", run_job.c.job_id)

#: What the loaded file says about entries, by name; the name "" holds what is said of all (the time zone).
schedule_config = Table(
    "schedule_config",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("document", Json, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)
