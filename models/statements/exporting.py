"""What an export writes: the mark of what was exported, and the word of it in the crawl's result (rule P6)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer, Select, String, Update, bindparam, select, update

from models.articles import articles
from models.base import db_now
from models.jobs import jobs

#: an article that has changed since it was read stays pending
MARK = (
    update(articles)
    .where(articles.c.id == bindparam("b_id", type_=Integer()), articles.c.sha256 == bindparam("b_sha", type_=String()))
    .values(exported_sha256=bindparam("b_sha", type_=String()), exported_at=db_now())
)


def crawls_that_wait(export_job_id: str) -> Select[Any]:
    """Lock and read the done crawls whose result names an export job and still says that it is under way."""
    export = jobs.alias()
    of_job = select(export.c.target_code).where(export.c.job_id == export_job_id).scalar_subquery()
    return (
        select(jobs.c.job_id, jobs.c.result, jobs.c.progress)
        .where(jobs.c.target_code == of_job, jobs.c.kind == "crawl", jobs.c.status == "done",
               jobs.c.result["rag_export"]["job_id"].as_string() == export_job_id,
               jobs.c.result["rag_export"]["status"].as_string() == "running")
        .order_by(jobs.c.job_id).with_for_update(key_share=True)
    )


def note(job_id: str, result: dict[str, Any], progress: dict[str, Any] | None) -> Update:
    """Write what came of the export into a done crawl."""
    return update(jobs).where(jobs.c.job_id == job_id, jobs.c.status == "done").values(result=result, progress=progress)
