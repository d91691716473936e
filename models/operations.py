"""What operators did, with who and why, and what operators are to be told.

Both are written in the transaction of the change that they speak of: an action that happened is never without its row.
"""

from __future__ import annotations

import getpass
import os
import socket
from typing import NamedTuple

from sqlalchemy import Column, Index, Integer, String, Table, Text

from config.settings import Settings
from models.base import BigId, Json, UtcDateTime, metadata


class Operator(NamedTuple):
    """Who acts, how they asked (``cli``, ``api``, ``page``, ``celery``), and why."""

    who: str
    surface: str = "cli"
    reason: str = ""


def acting(settings: Settings, surface: str, reason: str = "") -> Operator:
    """Return who acts in this process: the setting `operator`, else the user and the machine."""
    who = settings.operator
    if who is None:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user need not have a name
            user = f"uid{os.getuid()}"
        who = f"{user}@{socket.gethostname()}"
    return Operator(who, surface, reason)


#: Every action of an operator, from any surface.
operations = Table(
    "operations",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("who", String(200), nullable=False),
    # how they asked: cli, api, page, celery
    Column("surface", String(20), nullable=False),
    Column("action", String(40), nullable=False),
    Column("group_key", String(200)),
    Column("job_id", String(64)),
    Column("target_code", String(200)),
    Column("entry", String(100)),
    Column("reason", Text, nullable=False, server_default=""),
    Column("details", Json),
)
Index("ix_operations_at", operations.c.at)
Index("ix_operations_group_key_at", operations.c.group_key, operations.c.at)
Index("ix_operations_job_id", operations.c.job_id)

#: What a person should hear of (rule J15): one row a matter, sent to the webhook if one is set.
notices = Table(
    "notices",
    metadata,
    # names the matter, so that it is told once: `dead_letter:<job>:<attempt>`
    Column("key", String(300), primary_key=True),
    Column("kind", String(40), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("document", Json, nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_try_at", UtcDateTime, nullable=False),
    Column("sent_at", UtcDateTime),
)
Index("ix_notices_next_try_at", notices.c.next_try_at)
