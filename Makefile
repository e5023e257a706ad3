# Everything a newcomer needs: `make quickstart` shows the product on this machine, `make test` proves it.
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help quickstart status stop test test-all lint unit molecule integration setup lock docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

quickstart: setup ## start the sandbox fleet and ask it for a completion through its VIP
	@$(PY) scripts/quickstart.py

status: setup ## what runs in the sandbox fleet
	@$(PY) -m sandbox status -i inventories/sandbox

stop: setup ## stop the sandbox fleet, keep its caches
	@$(PY) -m sandbox down -i inventories/sandbox

test: setup ## every check and test: lint, unit, molecule, integration
	@$(PY) scripts/test.py lint unit molecule integration

test-all: setup ## the same over the full matrix of roles and operating systems
	@$(PY) scripts/test.py --matrix full --report docs/test-all.json lint unit molecule integration

lint unit molecule integration: setup ## one stage of the tests
	@$(PY) scripts/test.py $@

setup: ## the Python environment in .venv
	@scripts/setup.sh

lock: setup ## renew the pinned requirements
	@for f in uv controller dev; do .venv/bin/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --universal --python-version $$([ $$f = uv ] && echo 3.9 || echo 3.12) \
	  --custom-compile-command 'make lock' requirements/$$f.in -o requirements/$$f.txt; done

docs: setup ## renew the generated pages and schemas
	@for g in scripts/gen_*.py; do $(PY) $$g; done

clean: ## remove every trace of the sandbox and of the environment
	@if [ -d /var/lib/vllm-fleet-sandbox ] || [ -d /var/cache/vllm-fleet-sandbox ]; then \
	  scripts/setup.sh && $(PY) -m sandbox clean; fi
	@rm -rf .venv .tools .fleet .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .ansible
