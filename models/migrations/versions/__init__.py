"""One file a migration, numbered; `models.schema.HEAD` names the newest."""
