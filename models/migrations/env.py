"""What Alembic executes: it is given a connection inside a transaction and works in it (see `models.migrate`)."""

from __future__ import annotations

from alembic import context

from models.schema import metadata


def _run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is None:
        raise RuntimeError("migrations are run by `ratelane migrate`, not by the alembic command")
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


_run()
