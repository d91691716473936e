"""The functions with which the end of a job also begins the next one, beside those of the release before."""

from __future__ import annotations

from alembic import op

from models.migrations.functions import install

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    """Install the functions; no table changes."""
    install(op.get_bind())


def downgrade() -> None:
    """Refuse: going back would forget what ran."""
    raise NotImplementedError("this schema cannot be undone: restore a backup instead")
