"""Jobs and their attempts. A lane is occupied exactly while a running row of its group exists.

The two partial unique indexes on running rows are the strict guarantee (rule R3): whatever a worker believes, the
database refuses a second running job of a group or of a site.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Float,
    FromClause,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    and_,
    false,
    func,
    literal_column,
    select,
    text,
    true,
)

from models.base import BigId, Json, UtcDateTime, metadata
from models.sites import IN_FORCE, targets

STATUSES = ("queued", "running", "done", "failed", "cancelled")

jobs = Table(
    "jobs",
    metadata,
    Column("seq", BigId, primary_key=True, autoincrement=True),
    Column("job_id", String(64), nullable=False, unique=True),
    Column("kind", String(40), nullable=False),
    Column("site_code", String(200)),
    Column("target_code", String(200)),
    Column("group_key", String(200), nullable=False),
    Column("source", String(20), nullable=False, server_default="manual"),
    Column("status", String(10), nullable=False),
    Column("priority", Integer, nullable=False, server_default="100"),
    Column("dedupe_key", String(300)),
    Column("run_id", BigInteger),
    Column("force", Boolean, nullable=False, server_default=false()),
    Column("options", Json),
    # the fencing token: counts every claim and never goes back
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("claim_no", BigInteger, nullable=False, server_default="0"),
    # counted apart (spec, section 1); `_row` counts in a row without a new checkpoint
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer, nullable=False, server_default="3"),
    Column("recoveries", Integer, nullable=False, server_default="0"),
    Column("recoveries_row", Integer, nullable=False, server_default="0"),
    Column("cooldown_retries", Integer, nullable=False, server_default="0"),
    Column("cooldown_row", Integer, nullable=False, server_default="0"),
    Column("deadlines", Integer, nullable=False, server_default="0"),
    Column("deadlines_row", Integer, nullable=False, server_default="0"),
    Column("js_challenges", Integer, nullable=False, server_default="0"),
    Column("deadline_sec", Float),
    Column("resume_from_page", Integer, nullable=False, server_default="0"),
    Column("current_page", Integer, nullable=False, server_default="0"),
    Column("last_completed_page", Integer, nullable=False, server_default="0"),
    # the checkpoint's adapter state and the hash of the options it was made under
    Column("checkpoint", Json),
    # the page at which the present counts "in a row" began: a later page is a new checkpoint
    Column("row_page", Integer, nullable=False, server_default="0"),
    Column("progress", Json),
    Column("result", Json),
    Column("outcome", String(20)),
    Column("error_msg", Text, nullable=False, server_default=""),
    Column("wait_reason", String(40), nullable=False, server_default=""),
    # what the crawl saw when a firewall objected, written before the retry (rule C2)
    Column("cooldown_seen", Json),
    Column("enqueued_at", UtcDateTime, nullable=False),
    Column("queue_at", UtcDateTime, nullable=False),
    Column("run_after", UtcDateTime),
    Column("expires_at", UtcDateTime),
    # the job's next quiet window: not taken inside, parked if it runs (rule S6)
    Column("hold_from", UtcDateTime),
    Column("hold_until", UtcDateTime),
    Column("claimed_at", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("worker", String(200)),
    Column("boot_id", String(40)),
    Column("lease_until", UtcDateTime),
    Column("busy_until", UtcDateTime),
    Column("last_response_at", UtcDateTime),
    Column("last_interval_sec", Float),
    Column("stop_requested", Boolean, nullable=False, server_default=false()),
    # the worker is stopping: the body goes to its next stop point and gives the job back
    Column("park_requested", Boolean, nullable=False, server_default=false()),
    # Celery signatures to send once the job is final (rule J2): {"link": [...], "link_error": [...]}; the row is the outbox
    Column("callbacks", Json),
    Column("callbacks_sent_at", UtcDateTime),
    CheckConstraint("status IN ('queued', 'running', 'done', 'failed', 'cancelled')", name="status"),
    CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name="lease_while_running"),
    CheckConstraint("(status IN ('done', 'failed', 'cancelled')) = (finished_at IS NOT NULL)", name="finished"),
)

RUNNING = text("status = 'running'")
QUEUED = text("status = 'queued'")
ACTIVE = text("status IN ('queued', 'running')")
EXPIRES = text("status = 'queued' AND expires_at IS NOT NULL")
HELD = text("status = 'queued' AND hold_from IS NOT NULL")
ENDED = text("finished_at IS NOT NULL")
#: crawls are what there is most of: who looks for them finds some wherever he looks
RARE_KIND = text("finished_at IS NOT NULL AND kind <> 'crawl'")
HAS_ERROR = text("error_msg <> ''")
TO_SEND = text("callbacks IS NOT NULL AND callbacks_sent_at IS NULL AND status IN ('done', 'failed', 'cancelled')")

Index("uq_jobs_running_group", jobs.c.group_key, unique=True, postgresql_where=RUNNING, sqlite_where=RUNNING)
Index("uq_jobs_running_site", jobs.c.site_code, unique=True, postgresql_where=RUNNING, sqlite_where=RUNNING)
Index("uq_jobs_active_dedupe", jobs.c.dedupe_key, unique=True, postgresql_where=ACTIVE, sqlite_where=ACTIVE)
Index(
    "ix_jobs_head", jobs.c.group_key, jobs.c.priority, jobs.c.queue_at, jobs.c.seq,
    postgresql_where=QUEUED, sqlite_where=QUEUED,
)
Index("ix_jobs_due", jobs.c.group_key, jobs.c.run_after, postgresql_where=QUEUED, sqlite_where=QUEUED)
Index("ix_jobs_lease", jobs.c.lease_until, postgresql_where=RUNNING, sqlite_where=RUNNING)
Index("ix_jobs_boot", jobs.c.boot_id, postgresql_where=RUNNING, sqlite_where=RUNNING)
Index("ix_jobs_expires", jobs.c.expires_at, postgresql_where=EXPIRES, sqlite_where=EXPIRES)
Index("ix_jobs_hold", jobs.c.hold_from, postgresql_where=HELD, sqlite_where=HELD)
Index("ix_jobs_callbacks", jobs.c.seq, postgresql_where=TO_SEND, sqlite_where=TO_SEND)
Index("ix_jobs_run", jobs.c.run_id, jobs.c.seq)
Index("ix_jobs_site_code", jobs.c.site_code, jobs.c.seq)
Index("ix_jobs_status_finished", jobs.c.status, jobs.c.finished_at)
Index("ix_jobs_target_code", jobs.c.target_code, jobs.c.seq)
Index("ix_jobs_dedupe", jobs.c.dedupe_key, jobs.c.seq)
Index("ix_jobs_group_finished", jobs.c.group_key, jobs.c.status, jobs.c.finished_at,
      postgresql_where=ENDED, sqlite_where=ENDED)
Index("ix_jobs_kind_finished", jobs.c.kind, jobs.c.status, jobs.c.finished_at,
      postgresql_where=RARE_KIND, sqlite_where=RARE_KIND)
#: so many characters of an error are found by its start
ERROR_START = 64
START_OF_ERROR: ColumnElement[str] = func.lower(func.substr(jobs.c.error_msg, literal_column("1"), literal_column("64")))
Index("ix_jobs_error", START_OF_ERROR.label("start"), postgresql_ops={"start": "text_pattern_ops"},
      postgresql_where=HAS_ERROR, sqlite_where=HAS_ERROR)


def in_state(*states: str, of: FromClause = jobs) -> ColumnElement[bool]:
    """Return the condition that a row of jobs (or of an alias `of`) is in one of `states`, the words spelled out.

    For a parameter a plan for all values cannot use the index of the queued, or of the running, jobs alone: it would
    read every job that was ever stored. Raises KeyError for a word that is no state.
    """
    words = [_WORDS[state] for state in states]
    return of.c.status == words[0] if len(words) == 1 else of.c.status.in_(words)


_WORDS: dict[str, ColumnElement[str]] = {state: literal_column(f"'{state}'", String()) for state in STATUSES}
IS_QUEUED, IS_RUNNING, IS_ACTIVE = in_state("queued"), in_state("running"), in_state("queued", "running")



def is_held(by: ColumnElement[datetime] | datetime, of: FromClause = jobs) -> ColumnElement[bool]:
    """Return the condition that a job is inside its quiet window at the moment `by` (rule S6)."""
    return and_(of.c.hold_from <= by, of.c.hold_until > by).is_(true())


#: the interval in force of a job's target; of a job without a target the largest of its site (rule R8)
INTERVAL: ColumnElement[float] = func.coalesce(
    select(IN_FORCE).where(targets.c.target_code == jobs.c.target_code).correlate(jobs).scalar_subquery(),
    select(func.max(IN_FORCE)).where(jobs.c.target_code.is_(None), targets.c.site_code == jobs.c.site_code)
    .correlate(jobs).scalar_subquery(),
    0.0,
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("group_key", String(200), nullable=False),
    Column("site_code", String(200)),
    Column("worker", String(200), nullable=False),
    Column("boot_id", String(40), nullable=False),
    Column("source", String(20), nullable=False),
    Column("claimed_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    # the recorded end: until then the attempt counts as occupying its lane (rule P5)
    Column("finished_at", UtcDateTime),
    Column("outcome", String(40)),
    Column("error", Text, nullable=False, server_default=""),
    Column("traceback", Text, nullable=False, server_default=""),
    Column("evidence", Json),
    Column("from_page", Integer, nullable=False, server_default="0"),
    Column("last_completed_page", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("job_id", "attempt"),
)
Index("ix_attempts_group_key_claimed_at", attempts.c.group_key, attempts.c.claimed_at)
_DEADLINE = text("outcome = 'deadline'")
Index("ix_attempts_deadline", attempts.c.finished_at, postgresql_where=_DEADLINE, sqlite_where=_DEADLINE)
