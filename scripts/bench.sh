#!/bin/sh
# Run a benchmark: lanes (beside plain Celery and Procrastinate; without a name this one), crawl (beside Scrapy; it needs
# nginx), claim, idle or schedule. Further arguments go to it (--json, --runs N, --only SHAPE).
set -eu
cd "$(dirname "$0")/.."
name=lanes
case ${1:-} in
    lanes | crawl | claim | idle | schedule)
        name=$1
        shift
        ;;
esac
extras=test
[ "$name" = crawl ] && extras=bench
scripts/setup.sh "$extras"
exec .venv/bin/python -m "benchmarks.$name" "$@"
