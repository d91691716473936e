"""A list of jobs with its filter in the address, and one job."""

from __future__ import annotations

import json
from typing import Any

from tornado.web import HTTPError

from console.flower import reads
from console.flower.pages.live import LivePage
from models.queries import STATUSES, JobFilter

ROWS = 50
#: the arguments of the address that make the filter; `run` is a number
_TEXTS = ("search", "status", "site", "target", "group", "kind", "source", "dedupe_key")
SORTED = {"order": "by urgency", "-submitted": "newest submit first", "submitted": "oldest submit first",
          "-finished": "newest end first", "finished": "oldest end first"}


class JobsPage(LivePage):
    """The jobs that the address asks for."""

    tab, title, eyebrow = "jobs", "Jobs", "Everything that was submitted"
    template, live_template = "jobs.html", "jobs_live.html"

    async def view(self, *names: str) -> dict[str, Any]:
        """Show a page of the jobs; raises the 400 that says what of the address cannot be."""
        wanted, sort = self._wanted(), self.get_query_argument("sort", "") or "order"
        if sort not in reads.SORTS:
            raise HTTPError(400, f"jobs cannot be sorted by {sort}; there are {', '.join(reads.SORTS)}")
        cursor = self.get_query_argument("cursor", "") or None
        found = await self.read(reads.jobs, wanted=wanted, sort=sort, limit=ROWS, cursor=cursor)
        return found | {"jobs": found["rows"], "wanted": wanted, "named": wanted.named, "sort": sort, "sorts": SORTED,
                        "cursor": cursor, "statuses": STATUSES, "filter_body": json.dumps(wanted.named)}

    def _wanted(self) -> JobFilter:
        told = {name: value for name in _TEXTS if (value := self.get_query_argument(name, "").strip())}
        if told.get("status", "queued") not in STATUSES:
            raise HTTPError(400, f"no job has the status {told['status']}; there are {', '.join(STATUSES)}")
        run = self.get_query_argument("run", "").strip()
        if run and not (run.isascii() and run.isdigit() and len(run) < 19):
            raise HTTPError(400, f"runs have numbers, not {run}")
        return JobFilter(**told, run=int(run) if run else None, id_by_start=True)


class JobPage(LivePage):
    """One job: why it does not run, how far it is, what happened in each attempt, what operators did."""

    tab = "jobs"
    template, live_template = "ratelane.html", "job_live.html"

    async def view(self, *names: str) -> dict[str, Any]:
        """Show a job."""
        (job_id,) = names
        found = await self.shared(reads.job, job_id)
        if found is None:
            raise self.not_found(f"No job has the id {job_id}. Finished jobs are kept for the days that retention says.")
        return {"job": found, "at": found["at"], "age_sec": found["age_sec"], "title": f"Job {job_id}", "job_page": True,
                "heading": job_id, "eyebrow": f"{found['kind']} job", "operations": found["operations"]}
