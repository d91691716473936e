"""The writer of the schedule's rows: entries, runs, and which jobs a run counts."""
