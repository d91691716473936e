#!/bin/sh
# Measure lanes beside plain Celery; arguments go to the benchmark (--json, --runs N, --only NAME).
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
exec .venv/bin/python -m benchmarks.lanes "$@"
