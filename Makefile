# The steps themselves are in scripts/, which also run without make.
.DEFAULT_GOAL := help
.PHONY: help demo test acceptance check bench lock docs clean

# Python to make .venv with; empty: the first of python3, python3.14 … python3.11 that is new enough
PYTHON ?=
export PYTHON
# further arguments for pytest: make test ARGS="tests/unit -k rules"
ARGS ?=

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## crawl a demo site with a firewall on this machine (about 40 seconds)
	@scripts/demo.sh

test: ## run the checks and all tests (PostgreSQL and Valkey come as Python packages)
	@scripts/test.sh $(ARGS)

acceptance: ## run the tests with RabbitMQ, TLS, nginx and long faults; as root, install what they need (Debian, Ubuntu)
	@scripts/acceptance.sh $(ARGS)

check: ## run lint, import contracts and types only
	@scripts/check.sh

bench: ## measure lanes against plain Celery and Procrastinate on this machine; ARGS=crawl: crawls against Scrapy
	@scripts/bench.sh $(ARGS)

lock: ## write requirements/constraints.txt from .venv
	@scripts/lock.sh

docs: ## write docs/settings.md from config/settings.py
	@scripts/setup.sh run
	@.venv/bin/python -m scripts.settings_doc

clean: ## remove .venv, caches and builds; no data
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
