#!/bin/sh
# The checks, then the tests; arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
scripts/check.sh
exec .venv/bin/python -m pytest "$@"
