#!/bin/sh
# Run the demo; arguments go to `ratelane demo`.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh run
exec .venv/bin/ratelane demo "$@"
