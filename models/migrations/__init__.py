"""The history of the schema, as Alembic keeps it. `models.migrate` runs it; nothing else needs to import it."""
