# make verify   set up, build the kernels, check them, print the verdict
# make test     set up, run the tests: of the long tests a third by the day, LONG=all for all
# make test-all run all tests, also those marked slow
# make outside  set up, and install the compilers that tests/outside needs
# make docs     the documentation site in build/site; fails on broken links, stale output and stale figures
# make paper    the paper as build/site/paper.pdf, printed by Chromium
# make pages    writes generated pages and figures anew: the command line, the Python API, the stages, rooms
# make browser  install Chromium, in which the tests of the gate's page open it (Debian; as root)
# make lint     ruff, mypy, clang-format
# make mutants  draws mutants of every kernel in the full profile (hours); SEED, COUNT, LEDGER can be given
# make nightly  the gate's nightly profile against that of the night before (hours); SEED, NIGHT, RESUME=1
# make fuzz     the engine under sanitizers on drawn maps, descriptors and operands; SECONDS, SEED
# make soak     launches with races checked in one process for an hour; SECONDS, SEED
# make images   machine code of the backward kernels, which `make package` takes into the wheel
# make package  a wheel and an sdist, each started in an empty environment (.ci/package)
# PYTHON (3.11 or newer), CXX, PIP_ARGS, EXAMPLES, BACKWARD_EXAMPLES, SEED, PYTEST_ARGS can be given on the
# command line.

PYTHON   ?= python3
EXAMPLES ?= 200
BACKWARD_EXAMPLES ?= 25
SEED     ?= today
PIP_ARGS ?=
# Write bytecode even if the environment forbids it: the tests start Python hundreds of times.
export PYTHONDONTWRITEBYTECODE :=
VENV     := .venv
PY       := $(VENV)/bin/python
FOLDERS  := spec reference kernels emulator conformance ops tools

# The environment is rebuilt only when the content of these files changes.
INPUTS   := CMakeLists.txt setup.py pyproject.toml requirements.txt requirements-nodeps.txt constraints.txt
STAMP    := $(VENV)/tileproof-$(shell cat $(INPUTS) | sha256sum | cut -c1-16)
CXX_FILES = $(shell find benchmarks emulator kernels conformance \
              -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh')

# The packages of the site, in the same environment; `make setup` and `make test` do without them.
SITE     := $(VENV)/site-$(shell sha256sum < requirements-docs.txt | cut -c1-16)

.PHONY: browser setup outside pages docs paper docs-packages engine verify mutants nightly fuzz soak test \
  test-all lint format images package clean

setup: $(STAMP) engine

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tileproof needs Python 3.11 or newer; give it with make PYTHON=..." >&2; exit 2; }
	@command -v $(firstword $(CXX)) >/dev/null || \
	  { echo "Tileproof needs a C++20 compiler: install g++, or give one with make CXX=..." >&2; exit 2; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check $(PIP_ARGS) -r requirements.txt -c constraints.txt
	$(PY) -m pip install -q --disable-pip-version-check $(PIP_ARGS) --no-deps -r requirements-nodeps.txt
	$(PY) setup.py -q build_ext --inplace
	$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/tileproof-????????????????
	@touch $@

engine: $(STAMP)
	@$(PY) setup.py -q build_ext --inplace

# The packages that tests/outside needs in addition.
outside: setup
	$(PY) -m pip install -q --disable-pip-version-check $(PIP_ARGS) \
	  -r requirements-outside.txt -c constraints.txt

docs-packages: $(SITE)

$(SITE): $(STAMP)
	$(PY) -m pip install -q --disable-pip-version-check $(PIP_ARGS) \
	  -r requirements-docs.txt -c constraints.txt
	@rm -f $(VENV)/site-????????????????
	@touch $@

# Generated pages and figures, written anew: after a change of a docstring, a help text or the spec.
pages: setup
	$(PY) -m tileproof.tools.site --write

docs: setup docs-packages
	$(PY) -m tileproof.tools.site --check

# The paper as a PDF, printed by Chromium from its page.
paper: docs-packages
	$(PY) -m tileproof.tools.site
	chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer --print-to-pdf=build/site/paper.pdf \
	  build/site/docs/paper.html

# Installs Chromium on Debian, as root. Without it the tests that need a browser are skipped.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { test "$$(id -u)" = 0 && apt-get update -qq && \
	    apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; } || \
	  echo "no Chromium: the page of the gate is not opened in a browser" >&2

verify: setup
	@$(VENV)/bin/tileproof build
	@$(VENV)/bin/tileproof check head128-part0 --seed $(SEED) -j 0 --examples $(EXAMPLES)
	@$(VENV)/bin/tileproof check head128-columns --seed $(SEED) -j 0 --examples $(BACKWARD_EXAMPLES)
	@$(VENV)/bin/tileproof check head64 --seed $(SEED) -j 0 --examples $(BACKWARD_EXAMPLES)
	@$(VENV)/bin/tileproof check sm90-gemm --seed $(SEED) -j 0 --examples $(EXAMPLES)
	@$(VENV)/bin/tileproof check sm100-gemm-bias --seed $(SEED) -j 0 --examples $(EXAMPLES)

COUNT    ?= 200
LEDGER   ?= build/mutants.jsonl
EVERY    := from tileproof.kernels.registry import all_compiled as every; \
  print(*(f"{one.name}/{sizes}" for one in every() for sizes in one.variants))
mutants: setup
	@failed=0; for one in $$($(PY) -c '$(EVERY)'); do \
	  $(VENV)/bin/tileproof mutate $${one%%/*} $$(test -z "$${one#*/}" || echo --variant $${one#*/}) \
	    --profile full --seed $(SEED) --count $(COUNT) -j 0 --ledger $(LEDGER) || failed=1; \
	done; exit $$failed

# before/ holds the evidence of the previous night; a check that got worse since then is a defect.
NIGHT    ?= build/nightly
nightly: setup
	@mkdir -p $(NIGHT)/before
	@test -n "$(RESUME)" || test ! -f $(NIGHT)/evidence.json || cp $(NIGHT)/evidence.json $(NIGHT)/before
	@$(VENV)/bin/tileproof gate --profile nightly --keep-going --seed $(SEED) -j 0 --out $(NIGHT) \
	  $(if $(RESUME),--resume) $$(test ! -f $(NIGHT)/before/evidence.json || echo --against $(NIGHT)/before)

# Fuzz what the engine decodes from a kernel's bytes (tests/kit/fuzz), and damaged PTX.
SECONDS  ?= 600
fuzz: setup
	@$(PY) setup.py -q build_ext --sanitize
	@$(PY) -m tests.kit.fuzz --seconds $(SECONDS) --seed $(SEED)
	@EMULATOR_FUZZ=$(SECONDS) $(PY) -m tests.kit.fuzz --pytest tests/emulator/test_fuzz.py

# One process; whatever it reports wrongly, or grows by, fails. SECONDS is 3600 where it is not given.
soak: SOAK = $(if $(filter command line,$(origin SECONDS)),$(SECONDS),3600)
soak: setup
	@$(PY) -m tests.kit.soak --seconds $(SOAK) --seed $(SEED)

# Of the long tests a third, by the day; LONG=all runs each (tests/kit/long_tests.py).
LONG ?= $(shell date -u +%j)
test: setup
	$(PY) -m pytest -n 2 --dist worksteal -m "not slow" --long $(LONG) $(PYTEST_ARGS)

test-all: setup
	$(PY) -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

# Type checkers do not follow an editable install of mapped folders; they read a tree of links.
build/types/tileproof: $(STAMP)
	@mkdir -p $@
	@for folder in $(FOLDERS); do ln -sfn ../../../$$folder $@/$$folder; done
	@for file in package/tileproof/*.py; do ln -sfn ../../../$$file $@/; done
	@touch $@

# Run every linter even if an earlier one fails.
lint: setup build/types/tileproof
	@failed=0; \
	$(PY) -m ruff check . || failed=1; \
	$(PY) -m ruff format --check . || failed=1; \
	$(PY) -m mypy -p tileproof || failed=1; \
	$(PY) -m mypy tests || failed=1; \
	test -z "$(CXX_FILES)" || $(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES) || failed=1; \
	exit $$failed

format: setup
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	@test -z "$(CXX_FILES)" || $(VENV)/bin/clang-format -i $(CXX_FILES)

# Machine code of the backward kernels, for a package that needs no nvcc on a card.
images: setup
	@for one in head64 head128-columns; do \
	  $(VENV)/bin/tileproof build $$one --cubins kernels/images || exit 1; \
	done

package: images
	.ci/package

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(FOLDERS) package tests \( -name __pycache__ -o -name '*.so' \) -prune -exec rm -rf {} +
