"""Which Celery task a name in the file of sites means."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from config.celery import app
from config.errors import RatelaneError


def find_task(name: str) -> Any:
    """Return the Celery task called `name`.

    It is one of Ratelane's own, or one that the module which its name begins with makes when it is imported (Celery's
    own way to name tasks). Raises LookupError, in words, if there is none.
    """
    app.loader.import_default_modules()
    module = name.rpartition(".")[0]
    if name not in app.tasks and module:
        _import(module, name)
    try:
        return app.tasks[name]
    except KeyError:
        known = sorted(each for each in app.tasks if not each.startswith("celery."))
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        raise LookupError(f"no task is called {name!r}; {hint}") from None


def _import(module: str, name: str) -> None:
    """Import the module of a task; one that is not installed is no reason to say more than that the task is unknown."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if not (module + ".").startswith(f"{error.name}."):
            raise LookupError(f"{name!r} cannot be imported: {error}") from error
    except RatelaneError:
        raise
    except Exception as error:
        raise LookupError(f"{name!r} cannot be imported: {type(error).__name__}: {error}") from error
