"""Reading only: the documents of the command line contract, as the CLI, the API and the pages show them."""

from models.queries.catalogue import articles, interval, nearest_target, targets
from models.queries.exporting import exports_of
from models.queries.jobs import (
    FINAL,
    STATUSES,
    JobFilter,
    counts,
    documents,
    find_active,
    find_latest,
    job,
    jobs,
    statuses,
)
from models.queries.lanes import lanes, live
from models.queries.workers import workers

__all__ = [
    "FINAL", "STATUSES", "JobFilter", "articles", "counts", "documents", "exports_of", "find_active", "find_latest",
    "interval", "job", "jobs", "lanes", "live",
    "nearest_target", "statuses", "targets", "workers",
]
