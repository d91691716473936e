"""Reading only: the documents of the command line contract, as the CLI, the API and the pages show them."""

from models.jobs import STATUSES
from models.queries.catalogue import articles, interval, known_groups, known_sites, nearest, nearest_target, targets
from models.queries.exporting import exports_of
from models.queries.jobs import (
    FINAL,
    JobFilter,
    checkpoint,
    counts,
    documents,
    find_active,
    find_latest,
    job,
    jobs,
    statuses,
)
from models.queries.lanes import fleet_pause, lane, lanes, live
from models.queries.line import next_up
from models.queries.operations import operations_of_group, operations_of_job
from models.queries.ops import NAMES as OPS
from models.queries.ops import groups_paused, ops
from models.queries.reading import zone
from models.queries.waiting import facts, many
from models.queries.workers import unserved, workers

__all__ = [
    "FINAL", "OPS", "STATUSES", "JobFilter", "articles", "checkpoint", "counts", "documents", "exports_of", "facts",
    "find_active", "find_latest", "fleet_pause", "groups_paused", "interval", "job", "jobs", "known_groups",
    "known_sites", "lane", "lanes", "live", "many", "nearest", "nearest_target", "next_up", "operations_of_group",
    "operations_of_job", "ops", "statuses", "targets", "unserved", "workers", "zone",
]
