# make lab opens the course, make test proves it. Both create .venv by themselves, from exact pins.

PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
FIRST := notebooks/00_start_here.ipynb
CONTENTS := --ServerApp.contents_manager_class=devlab.contents.Contents
PAGE := --LabApp.custom_css=True
# To compile what is installed takes pip half a minute, most of it for modules that nobody imports; Python
# compiles the others when it first imports them, where PYTHONDONTWRITEBYTECODE does not forbid it.
QUIETLY := -qq --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test test-all lint notebooks exercise benchmarks locked release record-cuda clean

help: ## say what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s%s\n", $$1, $$2}' Makefile

lab: .venv/lab ## open the course in JupyterLab (no display: print its address and serve)
	@$(BIN)/jupyter lab --ServerApp.root_dir=. $(CONTENTS) $(PAGE) --LabApp.default_url=/lab/tree/$(FIRST) \
	--log-level=WARN $(JUPYTER)

# Each of the $(JOBS) workers has a processor; more threads would only wait for each other.
test: export OMP_NUM_THREADS := 1
test: .venv/test lint ## pass every test: style, the package, the notebooks, a browser
	@browser="$$($(BIN)/python .ci/browser.py)" || exit 1; status=0; \
	$(BIN)/pytest -n $(JOBS) --dist loadfile --nbval --nbval-cell-timeout=60 notebooks solutions || status=1; \
	DEVLAB_BROWSER="$$browser" $(BIN)/pytest -n $(JOBS) $(THOROUGH) || status=1; \
	exit $$status

test-all: THOROUGH := --thorough
test-all: test ## the same, and what costs most and finds least: other numbers, other rules, every wall of grading

lint: .venv/test ## check style alone
	@$(BIN)/ruff check --output-format concise
	@$(BIN)/ruff format --check

notebooks: .venv/test ## rebuild the notebooks whose source changed
	@$(BIN)/python source/build.py

exercise: .venv/test ## judge the bank of one exercise and show each verdict: make exercise NAME=append_ones
	@$(BIN)/python source/build.py --tables
	@DEVLAB_DEVICE=sim $(BIN)/python tests/show.py $(NAME)

benchmarks: .venv/test ## measure what the course promises about speed, all in one table
	@$(BIN)/python benchmarks/run.py

# UV is the path of uv, which no other target needs.
locked: ## write requirements.lock anew from the pins, with the hash of every file, for uv; needs uv
	$(or $(UV),uv) pip compile pyproject.toml --extra lab --universal --python-version 3.11 -c constraints.txt -q \
	--generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make locked" -o requirements.lock

release: ## build a release and try its wheel, VERSION=1.0.0; publishing it is a person's
	@DEVLAB_REPOSITORY="$(REPOSITORY)" $(PYTHON) .ci/release.py $(VERSION)

record-cuda: ## record what a real GPU does, and how far sim agrees; torch and NumPy suffice (PYTHON=...)
	$(PYTHON) benchmarks/hardware/record.py --device cuda

clean: ## remove what was built and cached; .venv stays (rm -r .venv to start anew)
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis test-results
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# The environment: a stamp for each set of packages, older than neither the package's needs nor the pins.
.venv/lab: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing the course into .venv; the first time takes minutes."
	@$(BIN)/python -m pip install -c constraints.txt -e ".[lab]" $(QUIETLY)
	@touch $@

.venv/test: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing the course and its tools into .venv; the first time takes minutes."
	@$(BIN)/python -m pip install -c constraints.txt -e ".[test]" $(QUIETLY)
	@touch $@ .venv/lab

# Python 3.11 brings an old pip, which takes half a minute more to choose among all releases. Where the pinned
# one cannot be had, it will do.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) found. Install Python 3.11 or later, or name yours: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "$$($(PYTHON) -V) is too old: devlab needs 3.11 or later. Name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo "$(PYTHON) cannot make environments. On Debian: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	@-$(BIN)/python -m pip install -c constraints.txt pip $(QUIETLY)

# Without a display JupyterLab prints its address and keeps serving; root must say that it means it.
HEADLESS := $(or $(CI),$(SSH_CONNECTION),$(if $(filter Linux,$(shell uname -s)),$(if $(DISPLAY)$(WAYLAND_DISPLAY),,yes)))
JUPYTER := $(if $(HEADLESS),--no-browser) $(if $(filter 0,$(shell id -u)),--allow-root)
