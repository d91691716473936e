"""The Celery applications that `benchmarks.lanes` runs workers of."""
