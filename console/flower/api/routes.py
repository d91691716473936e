"""The table of routes: everything else about the API is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from console.flower.api import asked, calls, schedule_shapes, shapes

#: what any route may answer beside its document, by status
ALWAYS = (401, 403, 405, 422, 503)
_ACTING = (413, 415)


@dataclass(frozen=True)
class Route:
    """One method of one path: what it may be asked, what it does and what it answers.

    `answer` is the document, or a list of them; a `paged` list has the cursor of its next part in a header.
    """

    method: str
    path: str
    call: Callable[[asked.Request], Any]
    answer: Any
    query: type[BaseModel] = asked.Asked
    body: type[BaseModel] | None = None
    status: int = 200
    paged: bool = False
    refusals: tuple[int, ...] = ()

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (self.call.__doc__ or "").strip()

    @property
    def statuses(self) -> list[int]:
        """Every status that it may answer, its success first."""
        acting = _ACTING if self.body is not None else ()
        return [self.status, *sorted({*ALWAYS, *acting, *self.refusals})]


ROUTES = (
    Route("GET", "/targets", calls.targets, list[shapes.Target], query=asked.Targets, paged=True),
    Route("POST", "/targets/{target_code}/run", calls.run_target, shapes.Submitted, body=asked.Submit, status=202,
          refusals=(404,)),
    Route("GET", "/jobs", calls.jobs, list[shapes.JobInList], query=asked.Jobs, paged=True),
    Route("GET", "/jobs/find", calls.find, list[shapes.Found], query=asked.Find),
    Route("POST", "/jobs/cancel", calls.cancel_matching, shapes.Cancelled, body=asked.Cancel),
    Route("POST", "/jobs/requeue", calls.requeue_matching, shapes.Requeued, body=asked.Requeue),
    Route("GET", "/jobs/{job_id}", calls.job, shapes.Job, refusals=(404,)),
    Route("GET", "/jobs/{job_id}/why", calls.why, shapes.Why, refusals=(404,)),
    Route("POST", "/jobs/{job_id}/cancel", calls.cancel, shapes.Cancelled, body=asked.Reasoned, refusals=(404, 409)),
    Route("POST", "/jobs/{job_id}/requeue", calls.requeue, shapes.Requeued, body=asked.RequeueOne, refusals=(404, 409)),
    Route("GET", "/lanes", calls.lanes, list[shapes.Lane], query=asked.Listing, paged=True),
    Route("POST", "/lanes/pause", calls.pause_all, list[shapes.Lane], query=asked.Listing, body=asked.Pause, paged=True),
    Route("POST", "/lanes/resume", calls.resume_all, list[shapes.Lane], query=asked.Listing, body=asked.Resume, paged=True),
    Route("GET", "/lanes/{group}", calls.lane, shapes.Lane, refusals=(404,)),
    Route("POST", "/lanes/{group}/pause", calls.pause, shapes.Lane, body=asked.Pause, refusals=(404,)),
    Route("POST", "/lanes/{group}/resume", calls.resume, shapes.Lane, body=asked.Resume, refusals=(404,)),
    Route("GET", "/schedule", calls.schedule, list[schedule_shapes.Entry], query=asked.Listing, paged=True),
    Route("GET", "/schedule/preview", calls.preview, list[schedule_shapes.Occurrence], query=asked.Preview),
    Route("GET", "/schedule/runs", calls.runs, list[schedule_shapes.Run], query=asked.Runs, paged=True),
    Route("POST", "/schedule/{name}/run", calls.run_entry, schedule_shapes.Run, body=asked.RunEntry, refusals=(404, 409)),
    Route("POST", "/schedule/{name}/pause", calls.pause_entry, schedule_shapes.Entry, body=asked.Reasoned, refusals=(404,)),
    Route("POST", "/schedule/{name}/resume", calls.resume_entry, schedule_shapes.Entry, body=asked.Reasoned, refusals=(404,)),
    Route("GET", "/ops", calls.ops, shapes.Ops),
    Route("GET", "/counts", calls.counts, shapes.Counts),
    Route("GET", "/system", calls.system, schedule_shapes.System),
    Route("GET", "/workers", calls.workers, list[shapes.Worker]),
)
