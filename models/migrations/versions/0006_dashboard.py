"""Dashboard: indexes for looking back, each partial, so that a job that succeeds in a crawl pays for one of them alone."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: None = None
depends_on: None = None

ENDED = "finished_at IS NOT NULL"
RARE_KIND = "finished_at IS NOT NULL AND kind <> 'crawl'"
ERROR = "error_msg <> ''"
DEADLINE = "outcome = 'deadline'"
START_OF_ERROR = "lower(substr(error_msg, 1, 64))"


def only(condition: str) -> dict[str, Any]:
    """Return what makes an index partial on both databases."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def upgrade() -> None:
    """Add the indexes."""
    op.create_index("ix_jobs_group_finished", "jobs", ["group_key", "status", "finished_at"], **only(ENDED))
    op.create_index("ix_jobs_kind_finished", "jobs", ["kind", "status", "finished_at"], **only(RARE_KIND))
    # LIKE finds a beginning by an index in the order of bytes alone
    by_bytes = f"({START_OF_ERROR}) text_pattern_ops" if op.get_bind().dialect.name == "postgresql" else START_OF_ERROR
    op.create_index("ix_jobs_error", "jobs", [sa.text(by_bytes)], **only(ERROR))
    op.create_index("ix_attempts_deadline", "attempts", ["finished_at"], **only(DEADLINE))


def downgrade() -> None:
    """Refuse, as every migration does."""
    raise NotImplementedError("this schema cannot be undone: restore a backup instead")
