"""Ground floor: settings, the Celery application, clock, logs, errors, embedded services.

This room imports none of the others. ``celery -A config`` finds the application here.
"""

from config.celery import app

celery = app

__all__ = ["app", "celery"]
