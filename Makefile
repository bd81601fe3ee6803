# Everything a contributor types. Each target does its own set-up; nothing needs to be installed by hand on Debian 12 or Ubuntu 24.04.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# ansible-playbook does not flush what it prints: without this, progress comes late through a pipe.
export PYTHONUNBUFFERED := 1
LAB := molecule/lab/lab.py

.PHONY: help setup host lab lab-down demo test lint unit browser transaction scenarios both-ends bench build clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

setup: ## The Python environment and the collection's path; quick when there
	@tools/setup.sh >/dev/null

host: # What the lab needs from this machine: a container engine, veth cables
	@molecule/lab/host.sh

lab: setup host ## The emulated twin: two Sparks with a cable, a hub, a registry
	@python3 $(LAB) up

lab-down: ## Take the lab away; images and model stay cached
	@python3 $(LAB) down

demo: setup host ## The whole story, from nothing to an answered question
	@tools/demo.sh

test: setup host ## All that CI runs
	@tools/test.sh

lint: setup ## Linters and types, no skips
	@ruff check .
	@ruff format --check .
	@mypy
	@yamllint --strict .
	@ansible-lint --offline --profile production

unit: setup ## Parsers, planner, rules, modules
	@pytest --numprocesses auto tests/unit

browser: setup ## The report's page in a headless browser
	@tools/browser.sh
	@pytest tests/browser

transaction: setup host ## Changes of the fabric that are interrupted, on machines of their own
	@pytest tests/testinfra/transaction

scenarios: setup host ## The product against the lab
	@tools/scenarios.sh

both-ends: setup host ## A second run of site.yml with the newest ansible-core, where a Python for it is found
	@tools/both-ends.sh

bench: setup host ## How fast, in ratios; writes docs/benchmarks.md
	@python3 $(LAB) up
	@.venv/bin/python tests/benchmarks/recon/measure.py

build: setup ## The collection's archive
	@ansible-galaxy collection build --force

clean: lab-down ## Forget reports and caches of this checkout
	@rm -rf reports .ansible .venv .mypy_cache .pytest_cache .ruff_cache
