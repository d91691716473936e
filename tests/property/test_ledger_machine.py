"""Several workers, a moving clock, crashes and late writes in any order: what must hold in every state (spec, section 3).

Every claim that was ever made stays in the machine's hands and may try to write again at any time, so a process that
was frozen, or given up by the reaper, is just one that is late.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, func, insert, select

from config.errors import (
    Cancelled,
    JobDeadlineExceeded,
    Parked,
    PartialCrawl,
    PermanentJobError,
    StaleClaim,
)
from models.base import metadata
from models.catalogue import Catalogue
from models.claim import Claim, Commit, Started, Taker
from models.db import Database
from models.groups import fleet
from models.jobs import attempts, jobs
from models.lifecycle import Event, State, next_state
from models.sites import sites
from routing import resolver
from tests.support.ledger import Bench, objection, seed

SHAPE = {"g1": {"s1": ["t1", "t1b"], "s1b": ["t1c"]}, "g2": {"s2": ["t2"]}, "g3": {"s3": ["t3"]}}
TARGETS = [code for homes in SHAPE.values() for codes in homes.values() for code in codes]
SITES = [site for homes in SHAPE.values() for site in homes]
WORKERS = ["a", "b", "c"]

ENDS: dict[str, BaseException | None] = {
    "done": None, "failure": ValueError("x"), "permanent": PermanentJobError("x"), "partial": PartialCrawl("x"),
    "cooldown": objection(), "challenge": objection("js_challenge", 567), "deadline": JobDeadlineExceeded("x"),
    "park": Parked("parked", 40.0), "soft stop": Parked("soft_stop"), "cancelled": Cancelled(),
}
#: who goes on with a lane: a pool child cannot, nor is every slot free for the body that follows
TAKER = Taker("a", "boot-a", 60.0)
BEGINNER = TAKER._replace(busy_sec=50.0)
DEAD = (State.FAILED, State.CANCELLED)
#: what an attempt's recorded outcome did to its job; two words stand for an end and for a beginning
EVENTS = {
    "done": Event.FINISH, "failed": Event.FAIL, "abandoned": Event.FAIL, "failed_attempt": Event.AGAIN,
    "deadline": Event.AGAIN, "partial": Event.AGAIN, "cooldown": Event.COOL, "parked": Event.PARK,
    "soft_stop": Event.PARK, "lost": Event.RECOVER, "handed_back": Event.HAND_BACK,
    "worker_lost": Event.HAND_BACK, "cancelled": Event.CANCEL,
}
LAST = {"partial": Event.FINISH, "cooldown": Event.FAIL}


@dataclass
class Held:
    """A claim as the process that got it knows it."""

    claim: Claim
    started: Started | None = None
    page: int = 0
    #: it began with its claim, and its body has not run
    unseen: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """One store, three workers, and everybody's claims."""

    #: what waits at the beginning
    first: Sequence[str] = (*TARGETS, *TARGETS)

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.bench = Bench(database)
        self.held: list[Held] = []

    @initialize()
    def begin(self) -> None:
        """Start every example with an empty store."""
        with self.bench.db.write() as conn:
            for table in metadata.sorted_tables:
                conn.execute(delete(table))
            conn.execute(insert(fleet).values(id=1))
        seed(self.bench.db, SHAPE)
        for code in self.first:
            self.bench.submit(code)

    # what people and time do

    @rule(code=st.sampled_from(TARGETS), priority=st.sampled_from([100, 100, 1]), key=st.booleans(),
          delay=st.sampled_from([None, None, 25.0]))
    def submit(self, code: str, priority: int, key: bool, delay: float | None) -> None:
        name = f"crawl:{code}" if key else None
        active = None if name is None else self.ask(
            select(jobs.c.job_id).where(jobs.c.dedupe_key == name, jobs.c.status.in_(("queued", "running"))))
        made = self.bench.submit(code, priority=priority, dedupe_key=name, delay_sec=delay)
        assert made.created == (active is None)
        assert active is None or made.job_id == active

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0, 61.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)

    @rule(number=st.integers(0, 99))
    def cancel(self, number: int) -> None:
        found = self.bench.rows(jobs)
        row = found[number % len(found)]
        expected = {"queued": "cancelled", "running": "flagged"}.get(row["status"], "refused")
        assert self.bench.ledger.cancel(row["job_id"]).verdict == expected

    @rule(site=st.sampled_from(SITES), group=st.sampled_from([*SHAPE, "g4"]))
    def move(self, site: str, group: str) -> None:
        resolver.assign(Catalogue(self.bench.db, self.bench.clock.now), site, group)

    # what workers do

    @rule(worker=st.sampled_from(WORKERS), slots=st.integers(1, 3), later=st.sampled_from([0.0, 0.0, 30.0, 700.0]))
    def claim(self, worker: str, slots: int, later: float) -> None:
        self.bench.clock.advance(later)
        self.bench.ledger.fold()
        heads = {key: self.head(key) for key in self.keys()}
        found = self.bench.ledger.claim(slots, worker, f"boot-{worker}").claims
        for claim in found:
            assert claim.job_id == heads[claim.group]
            self.held.append(Held(claim))
        assert len({claim.group for claim in found}) == len(found) <= slots

    @rule(ends=st.lists(st.sampled_from([*ENDS]), min_size=1, max_size=4), pages=st.integers(0, 1))
    def work(self, ends: list[str], pages: int) -> None:
        """Let one worker run what it gets, one attempt after the other, each to its end."""
        for end in ends:
            self.bench.clock.advance(30.0)
            self.claim("a", 1, 0.0)
            for _ in range(pages):
                self.commit_page(3, False)
            self.settle(3, end, None)

    @rule(number=st.integers(0, 99))
    def start(self, number: int) -> None:
        if (held := self.pick(number)) is None:
            return
        if self.current(held) and held.started is None:
            self.begun(held)
        else:
            self.refused(lambda: self.bench.start(held.claim))

    @rule(number=st.integers(0, 99), seen=st.booleans())
    def commit_page(self, number: int, seen: bool) -> None:
        if (held := self.pick(number)) is None or not self.begun(held):
            return
        what = Commit(progress={"page": held.page + 1}, last_completed_page=held.page + 1,
                      cooldown_seen={"kind": "rate"} if seen else None, response_age_sec=0.1, response_interval_sec=10.0)
        write = partial(self.bench.ledger.commit, *held.claim[:2], held.claim.group, what)
        if self.current(held):
            write()
            held.page += 1
        else:
            self.refused(write)

    @rule(number=st.integers(0, 99), end=st.sampled_from([*ENDS]), taker=st.sampled_from([None, TAKER, BEGINNER]))
    def settle(self, number: int, end: str, taker: Taker | None) -> None:
        if (held := self.pick(number)) is None or not self.begun(held):
            return
        assert held.started is not None
        error = ENDS[end]
        write = partial(self.bench.settle, held.started, error, page=held.page, response_age_sec=0.2,
                        response_interval_sec=10.0)
        if self.current(held):
            stop = self.bench.job(held.claim.job_id)["stop_requested"]
            settled = write(take=taker)
            assert settled.status != "queued" or not stop
            if settled.following is not None:
                assert (settled.begun is not None) is (taker is BEGINNER)
                page = settled.begun.last_completed_page if settled.begun is not None else 0
                self.held.append(Held(settled.following, settled.begun, page, unseen=settled.begun is not None))
        else:
            self.refused(write, only_jobs=end in {"cooldown", "challenge"})

    @rule(number=st.integers(0, 99))
    def hand_back(self, number: int) -> None:
        if (held := self.pick(number)) is None:
            return
        expected = self.current(held) and (held.started is None or held.unseen)
        assert self.bench.ledger.hand_back(*held.claim[:2], held.claim.group, begun=held.unseen) is expected

    @precondition(lambda self: self.held)
    @rule()
    def renew(self) -> None:
        expected = {held.claim[:2]: self.current(held) for held in self.held}
        found = {row[:2]: row[2] for row in self.bench.ledger.renew(list(expected))}
        assert {pair: answer != "lost" for pair, answer in found.items()} == expected

    @rule()
    def reap(self) -> None:
        self.bench.reaper.reap()
        assert self.ask(select(func.count()).where(
            jobs.c.status == "running", jobs.c.lease_until < self.bench.clock.now)) == 0

    @rule(number=st.integers(0, 99))
    def a_child_is_certainly_dead(self, number: int) -> None:
        if (held := self.pick(number)) is None:
            return
        expected = self.current(held)
        assert (self.bench.reaper.recover(*held.claim[:2], held.claim.group) is not None) is expected

    @rule()
    def sweep(self) -> None:
        assert self.bench.reaper.sweep() == 0, "a lane slept on due work"

    # what holds at any time

    @invariant()
    def at_most_one_runs_in_a_group_and_on_a_site(self) -> None:
        for column in (jobs.c.group_key, jobs.c.site_code):
            most = select(func.count().label("n")).where(jobs.c.status == "running").group_by(column).subquery()
            assert (self.ask(select(func.max(most.c.n))) or 0) <= 1

    @invariant()
    def exactly_the_running_jobs_have_an_open_attempt(self) -> None:
        opened = select(attempts.c.job_id, attempts.c.attempt).where(attempts.c.finished_at.is_(None))
        live = select(jobs.c.job_id, jobs.c.attempt).where(jobs.c.status == "running")
        with self.bench.db.read() as conn:
            assert set(conn.execute(opened).all()) == set(conn.execute(live).all())

    def teardown(self) -> None:
        """Drain what is left: every job ends in one final state, which is the one that its history leads to."""
        for _ in range(200):
            if not self.ask(select(func.count()).where(jobs.c.status.in_(("queued", "running")))):
                break
            self.bench.clock.advance(22_000)
            self.bench.reaper.reap()
            assert self.bench.reaper.sweep() == 0, "a lane slept on due work"
            for claim in self.bench.claims(5):
                self.bench.settle(self.bench.start(claim))
        assert self.ask(select(func.count()).where(jobs.c.status.in_(("queued", "running")))) == 0
        assert self.bench.count("repairs") == 0
        history: dict[str, list[Any]] = {}
        for row in sorted(self.bench.rows(attempts), key=lambda row: row["attempt"]):
            history.setdefault(row["job_id"], []).append(row)
        for job in self.bench.rows(jobs):
            assert replayed(job, history.get(job["job_id"], [])) == job["status"]

    # what the machine knows

    def ask(self, question: Any) -> Any:
        with self.bench.db.read() as conn:
            return conn.execute(question).scalar()

    def keys(self) -> set[str]:
        return {row["group_key"] for row in self.bench.rows(sites)} | set(SHAPE)

    def head(self, key: str, without: Set[str] = frozenset()) -> str | None:
        """Return the job that a claim of this lane must take now, from the rules alone (R2, R3, R4)."""
        now, rows = self.bench.clock.now, [row for row in self.bench.rows(jobs) if row["job_id"] not in without]
        homes = {row["site_code"]: row["group_key"] for row in self.bench.rows(sites)}
        busy = {row["site_code"] for row in rows if row["status"] == "running"}
        group = self.bench.group(key)
        gates = (group["pause_until"], group["operator_pause_until"], group["next_request_at"],
                 self.bench.rows(fleet)[0]["operator_pause_until"])
        if any(gate is not None and gate > now for gate in gates):
            return None
        if any(row["group_key"] == key for row in rows if row["status"] == "running"):
            return None
        if any(homes[site] == key for site in busy):
            return None
        due = [row for row in rows if row["status"] == "queued" and row["group_key"] == key
               and (row["run_after"] is None or row["run_after"] <= now) and homes[row["site_code"]] == key]
        first = min(due, key=lambda row: (row["priority"], row["queue_at"], row["seq"]), default=None)
        return None if first is None else str(first["job_id"])

    def pick(self, number: int) -> Held | None:
        """Return one of the claims that were ever made; the newest are picked most often."""
        if not self.held:
            return None
        recent = self.held[-4:] if number % 4 else self.held
        return recent[-1 - number // 4 % len(recent)]

    def begun(self, held: Held) -> bool:
        """Start an attempt if that is still to be done and allowed; say whether its body ever began."""
        if held.started is None and self.current(held):
            held.started = self.bench.start(held.claim)
            held.page = held.started.last_completed_page
        held.unseen = False
        return held.started is not None

    def current(self, held: Held) -> bool:
        """Say whether an attempt is its job's current one, as the row has it."""
        row = self.bench.job(held.claim.job_id)
        return bool(row["status"] == "running" and row["attempt"] == held.claim.attempt)

    def refused(self, write: Any, *, only_jobs: bool = False) -> None:
        """Check that a write is refused and changes nothing; evidence of a block may pause groups (rule J7)."""
        before = self.bench.everything()
        with pytest.raises(StaleClaim):
            write()
        after = self.bench.everything()
        for name in ("jobs", "attempts", "interval_history") if only_jobs else before:
            assert after[name] == before[name], name


def replayed(job: dict[str, Any], history: list[dict[str, Any]]) -> State:
    """Return the state to which the recorded outcomes of a job lead."""
    state = State.QUEUED
    for number, row in enumerate(history, start=1):
        assert row["attempt"] == number
        if state in DEAD:
            state = next_state(state, Event.REQUEUE)
        state = next_state(state, Event.CLAIM)
        last = number == len(history) and job["status"] in {"done", "failed"}
        event = LAST.get(row["outcome"], EVENTS[row["outcome"]]) if last else EVENTS[row["outcome"]]
        state = next_state(state, event)
    if state is State.FAILED and job["status"] == "cancelled":
        state = next_state(state, Event.REQUEUE)
    if state is State.QUEUED and job["status"] == "cancelled":
        state = next_state(state, Event.CANCEL)
    return state


def test_whatever_happens_in_whatever_order_the_rules_hold(database: Database) -> None:
    budget = 40 if database.dialect == "sqlite" else 15
    run_state_machine_as_test(
        lambda: LedgerMachine(database),
        settings=settings(max_examples=budget, stateful_step_count=35, deadline=None, database=None,
                          phases=(Phase.generate, Phase.shrink),
                          suppress_health_check=list(HealthCheck)))
