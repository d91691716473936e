"""One table says which event leads where, and the documentation shows exactly that table (spec, section 3)."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from models.lifecycle import ACTIVE, CELERY_STATES, FINAL, TRANSITIONS, Event, State, diagram, next_state

DOCUMENT = Path(__file__).parents[3] / "docs" / "lifecycle.md"


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair_of_state_and_event_leads_somewhere_or_is_refused(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(LookupError, match=f"{state} has no transition for {event}"):
            next_state(state, event)


def test_a_done_job_never_comes_back() -> None:
    assert not [event for state, event in TRANSITIONS if state is State.DONE]


def test_only_a_requeue_leads_out_of_a_final_state() -> None:
    assert {event for state, event in TRANSITIONS if state in FINAL} == {Event.REQUEUE}


def test_only_a_claim_makes_a_job_run() -> None:
    assert {event for (_, event), after in TRANSITIONS.items() if after is State.RUNNING} == {Event.CLAIM}


def test_states_are_active_or_final_and_celery_has_a_word_for_each() -> None:
    assert set(State) == ACTIVE | FINAL == set(CELERY_STATES)
    assert not ACTIVE & FINAL


def test_every_state_and_every_event_is_in_the_table() -> None:
    assert {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values()) == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_the_documentation_shows_the_table_as_it_is() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    shown = text.partition("```mermaid\n")[2].partition("\n```")[0]
    assert shown == diagram(), "docs/lifecycle.md is out of date: put the text of models.lifecycle.diagram() there"


def test_the_documentation_names_every_event() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert not [event for event in Event if f"| `{event}` |" not in text]
