#!/bin/sh
# Measure lanes beside plain Celery and Procrastinate; arguments go to the benchmark (--json, --runs N, --only SHAPE).
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
exec .venv/bin/python -m benchmarks.lanes "$@"
