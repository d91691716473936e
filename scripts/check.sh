#!/bin/sh
# Lint, import contracts and types: what has to hold before any test is worth running.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
.venv/bin/ruff check .
.venv/bin/lint-imports --no-cache
.venv/bin/mypy
