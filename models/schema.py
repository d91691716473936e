"""Every table, in one import: what migrations compare with and tests create."""

from __future__ import annotations

from models import articles, groups, jobs, operations, requests, schedules, sites, snapshots, workers
from models.base import metadata

#: the newest migration; a database that stands elsewhere is refused or upgraded (rule D3)
HEAD = "0006"

__all__ = ["HEAD", "articles", "groups", "jobs", "metadata", "operations", "requests", "schedules", "sites",
           "snapshots", "workers"]
