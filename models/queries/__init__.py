"""Reading only: the documents of the command line contract, as the CLI, the API and the pages show them."""

from models.queries.catalogue import articles, interval, nearest_target, targets
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
from models.queries.reading import zone
from models.queries.waiting import facts, many, next_up
from models.queries.workers import workers

__all__ = [
    "FINAL", "STATUSES", "JobFilter", "articles", "counts", "documents", "facts", "find_active", "find_latest",
    "interval", "job", "jobs", "lanes", "live",
    "many", "nearest_target", "next_up", "statuses", "targets", "workers", "zone",
]
