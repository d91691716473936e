"""The writer of the schedule's rows: entries and runs (`records`), and the jobs that runs count (`launching`)."""
