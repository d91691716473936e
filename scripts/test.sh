#!/bin/sh
# The checks, then all tests but those of scripts/acceptance.sh; with arguments, pytest with these alone.
set -eu
cd "$(dirname "$0")/.."
scripts/check.sh
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi
# what judges moments runs beside one other such test, what measures speed alone; everything else shares the cores
status=0
.venv/bin/python -m pytest -m "not exclusive and not paired and not acceptance" -n 2 --dist worksteal || status=$?
.venv/bin/python -m pytest -m "paired and not acceptance" -n 2 --dist worksteal || status=$?
.venv/bin/python -m pytest -m "exclusive and not acceptance" || status=$?
exit "$status"
