#!/bin/sh
# Write requirements/constraints.txt from what is installed in .venv now: change pyproject.toml, `make lock`, `make test`.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh bench
lock=requirements/constraints.txt
{
    echo "# Exact versions of everything that Ratelane, its tests and its benchmarks need. Written by 'make lock'; do not edit."
    .venv/bin/python -m pip freeze --exclude-editable --disable-pip-version-check | grep -v -E '^(#|-e |pip==|setuptools==|wheel==)'
} >"$lock.new"
mv "$lock.new" "$lock"
