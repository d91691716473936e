"""The bodies of the kinds of jobs that the schedule starts beside crawls: one file each."""
