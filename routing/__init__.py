"""Which lane a job belongs to, and how it gets from its row into a worker."""
