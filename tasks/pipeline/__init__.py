"""The crawl of one target: fetch, judge, read, store. Knows neither Celery nor SQL; see `ports` for what it asks for."""

from __future__ import annotations

from tasks.pipeline.fetcher import Fetcher
from tasks.pipeline.ports import Article, Gate, Journal, RequestRecord, RobotsCopy
from tasks.pipeline.progress import Progress
from tasks.pipeline.target import CrawlResult, StartPoint, TargetSpec
from tasks.pipeline.walk import crawl

__all__ = [
    "Article", "CrawlResult", "Fetcher", "Gate", "Journal", "Progress", "RequestRecord", "RobotsCopy", "StartPoint",
    "TargetSpec", "crawl",
]
