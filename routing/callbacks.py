"""The callbacks of a job: signatures of Celery as JSON, made at the submit and sent once the job is final (rule J2).

A `chain` that a lane task stands in is a callback too: its next step, with the rest of the chain. A signature that has
no id yet gets one that follows from the job, so that what is sent twice has the same id.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

from celery import Celery
from celery.canvas import Signature, maybe_signature
from kombu import compression, serialization
from kombu.exceptions import SerializerNotInstalled
from kombu.utils.json import dumps, loads

from config.errors import BadInput
from models.outcome import storable
from routing.kinds import kind_of

_SPACE = uuid.UUID("5f1e2c3a-9d0b-4b7e-8a4e-6f2d1c0b9a87")
_CHORD = "a chord of lane jobs is refused: its polling task would wait in a lane"


def signatures(app: Celery, *, link: Any = None, link_error: Any = None, chain: Any = None) -> dict[str, Any] | None:
    """Return the callbacks of a job as ``{"link": […], "link_error": […]}``, None if there are none.

    Each of the three is what `apply_async` takes: a signature (or its dict), a list of them, or nothing; `chain` is
    the rest of a chain as Celery passes it on, last step first. Raises BadInput for one that cannot be sent.
    """
    links = [_checked(app, one) for one in _listed(link)]
    steps = list(_listed(chain))
    if steps:
        following = _checked(app, steps.pop())
        if steps:
            following["options"]["chain"] = [_checked(app, one) for one in steps]
        links.append(following)
    errbacks = [_checked(app, one, errback=True) for one in _listed(link_error)]
    found = {"link": [_plain(one) for one in links], "link_error": [_plain(one) for one in errbacks]}
    return {name: each for name, each in found.items() if each} or None


def send(
    app: Celery, job_id: str, number: int, name: str, document: dict[str, Any], argument: Any, *, at_end: int,
    producer: Any
) -> None:
    """Publish callback `number` of `name` (``link`` or ``link_error``) with `argument` first, unless it is immutable.

    `at_end` is the attempt with which the job ended: a repeat has the same id, the end of another life another one.
    """
    found = maybe_signature(loads(json.dumps(document)), app=app)
    options = {"parent_id": job_id, "root_id": found.options.get("root_id") or job_id, "producer": producer}
    if not found.options.get("task_id") and not _is_complex(found):
        options["task_id"] = str(uuid.uuid5(_SPACE, f"{job_id}/{name}/{number}/{at_end}"))
    found.apply_async((argument,), **options)


def _listed(some: Any) -> Iterable[Any]:
    if not some:
        return []
    return some if isinstance(some, list | tuple) else [some]


def _checked(app: Celery, one: Any, *, errback: bool = False) -> Signature:
    try:
        found = maybe_signature(one, app=app, clone=True)
        name = found.task
        whole = (isinstance(name, str) and isinstance(found.args, list | tuple)
                 and isinstance(found.kwargs, dict) and isinstance(found.options, dict))
    except (KeyError, TypeError, AttributeError, ValueError):
        whole = False
    if not whole:
        raise BadInput(f"a callback is a signature such as task.s(), not {one!r}")
    if found.get("subtask_type") == "chord":
        raise BadInput(_CHORD)
    if kind_of(name) is not None and not found.immutable:
        raise BadInput(f"{name} takes no result of the step before it: use {name.rpartition('.')[2]} with .si()")
    _refuse_unknown_forms(found)
    if errback:
        _refuse_what_needs_a_request(app, found)
    elif _is_complex(found):
        # ids are given now: what is sent again has to have the same
        found.freeze()
    return found


def _refuse_unknown_forms(one: Signature) -> None:
    """Refuse a serializer or compression that this process does not know, also in what is sent together."""
    options = one.options
    try:
        if options.get("serializer"):
            serialization.dumps("", serializer=options["serializer"])
        if options.get("compression"):
            compression.get_encoder(options["compression"])
    except (SerializerNotInstalled, LookupError, TypeError) as error:
        raise BadInput(f"the callback {one.task} cannot be sent: {error!r}") from error
    parts = one.kwargs.get("tasks") if _is_complex(one) else None
    for part in parts if isinstance(parts, list | tuple) else ():
        if isinstance(part, Signature):
            _refuse_unknown_forms(part)


def _refuse_what_needs_a_request(app: Celery, errback: Signature) -> None:
    """Refuse the form of an errback that Celery calls inside the failing worker, with a request that no message holds."""
    task = app.tasks.get(errback.task)
    header = getattr(task, "__header__", None)
    if header is None or errback.immutable or _is_complex(errback):
        return
    try:
        header("id", *errback.args, **errback.kwargs)
    except TypeError as error:
        raise BadInput(
            f"{errback.task} cannot be the error callback of a lane job: it is called with the job's id alone "
            f"({error}); AsyncResult of that id has the error") from error


def _is_complex(one: Signature) -> bool:
    return one.get("subtask_type") in ("group", "chain")


def _plain(one: Signature) -> dict[str, Any]:
    """Return a signature as JSON that every database keeps; what JSON lacks stays in kombu's own spelling."""
    try:
        found: dict[str, Any] = storable(json.loads(dumps(one)))
    except (TypeError, ValueError) as error:
        raise BadInput(f"the callback {one.task} cannot be kept as JSON: {error}") from error
    return found
