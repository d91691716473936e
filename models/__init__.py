"""Tables, statements, the life of a job, outcomes, the result backend."""
