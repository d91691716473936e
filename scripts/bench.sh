#!/bin/sh
# Run a benchmark: lanes (beside plain Celery; without a name this one) or crawl (beside Scrapy; it needs nginx). Further
# arguments go to it (--json, --runs N, --only NAME).
set -eu
cd "$(dirname "$0")/.."
name=lanes
case ${1:-} in
    lanes | crawl)
        name=$1
        shift
        ;;
esac
extras=test
[ "$name" = crawl ] && extras=bench
scripts/setup.sh "$extras"
exec .venv/bin/python -m "benchmarks.$name" "$@"
