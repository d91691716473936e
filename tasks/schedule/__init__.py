"""When what runs: pure decisions of the schedule (rules S1 to S9). Nothing here asks the time or knows SQL or Celery."""
