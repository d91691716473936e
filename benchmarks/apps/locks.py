"""Procrastinate: the same bodies, one lock a lane. Run as a program it is a worker of them.

As its manual has it, jobs run side by side as coroutines of one process, `concurrency` of them. A worker that found
every lane locked would look again only when a job is stored, or after 5 s: here it does after `POLL_SEC`.
"""

from __future__ import annotations

import logging
import os

from procrastinate import App, PsycopgConnector

from benchmarks.apps.stamps import await_body

POLL_SEC = 0.05
CONNECTIONS = 4

app = App(connector=PsycopgConnector(
    conninfo=os.environ["BENCH_CONNINFO"], min_size=CONNECTIONS, max_size=CONNECTIONS))


@app.task(name="bench.body")
async def body(lane: str) -> dict[str, bool]:
    """Do one measured body."""
    await await_body(lane)
    return {"ok": True}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    app.run_worker(concurrency=int(os.environ["BENCH_SLOTS"]), fetch_job_polling_interval=POLL_SEC)
