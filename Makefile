# make run    set up and train the example federation      make test   set up and run every check
# make quick  the checks under a quarter of a second        make bench  the benchmarks
# make setup  only make .venv                               make clean  remove .venv, caches and runs
# make soak   the checks that take minutes, within 50 of them: processes that are killed, cut off and on slow lines, fuzzers; CONTRIBUTING.md lists
#             them; CRESCENDO_SOAK=8 make soak tries eight times as much, CRESCENDO_SOAK=0.1 a tenth
# make search the property tests with new random examples
# make coinstall  does crescendo-fl[network] install beside flwr, wandb and others? pip resolves, nothing is installed
# make results  rewrites lab/results and docs/results.md: every short experiment, ten minutes on two cores; CRESCENDO_DATA names the data
# make lock   requirements.lock anew, for deployments: every package by version and SHA-256
# make picture  docs/figures/report.png anew: the report of the example, photographed by chromium
# make docs   the pages of docs as a site, in site/; any warning is an error
# make mutants  plant bugs by rule, some hours: PART=1/4 for one of four parts, OUT=FILE.jsonl for where they are kept
# make flaky  the network's and the commands' tests 20 times over on a busy machine; COUNT=3 for three times
#
# Everything lives in .venv. A stamp says what is installed there; it is older than a pyproject.toml or
# constraints.txt when the installation must be looked at again.

SHELL   := /bin/sh
BIN     := $(CURDIR)/.venv/bin
STAMPS  := .venv/stamps
PINS    := pyproject.toml dp/pyproject.toml constraints.txt
COUNT   := 20
PART    := 1/1
OUT     := mutants.jsonl
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e ./dp -e

.PHONY: run test quick soak search flaky mutants bench results picture docs coinstall lock setup clean
.DELETE_ON_ERROR:

run: $(STAMPS)/demo
	@$(BIN)/crescendo run examples/flights.toml

test: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

quick: $(STAMPS)/test
	$(BIN)/pytest -n 2 -m "not slow and not soak"

soak: $(STAMPS)/test
	$(BIN)/pytest -n 2 -m soak -rs

search: $(STAMPS)/test
	HYPOTHESIS_PROFILE=searching $(BIN)/pytest -n 2 -m "not soak"

flaky: $(STAMPS)/test
	$(BIN)/python -m tests.flaky --count $(COUNT)

mutants: $(STAMPS)/test
	$(BIN)/python -m tests.audit.mutate --part $(PART) --out $(OUT)

bench: $(STAMPS)/test
	@set -e; for file in lab/benchmarks/[a-z]*.py; do name=$$(basename $$file .py); echo "== $$name"; $(BIN)/python -m lab.benchmarks.$$name; done

results: $(STAMPS)/test
	$(BIN)/python -m lab reproduce all --out lab --page docs/results.md

picture: $(STAMPS)/demo
	folder=$$(mktemp -d) && $(BIN)/crescendo run examples/flights.toml --out $$folder/flights-1 && \
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir=$$folder/chromium --virtual-time-budget=5000 \
	  --window-size=1280,945 --screenshot=$(CURDIR)/docs/figures/report.png file://$$folder/flights-1/report.html

docs: $(STAMPS)/test
	$(BIN)/python docs/build_site.py site
	@echo "Open site/index.html."

coinstall: $(STAMPS)/test
	@$(BIN)/python -m deploy.coinstall

lock: $(STAMPS)/test
	$(BIN)/python -m deploy.lock

setup: $(STAMPS)/demo

clean:
	rm -rf .venv .venv-removed build dist runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info dp/build dp/dist dp/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/demo: $(PINS)
	@echo "Setting up .venv: about 39 packages, 160 MB to download (690 MB installed), once."
	@$(call install,.[demo])

$(STAMPS)/test: $(PINS)
	@echo "Setting up .venv for the checks: about 100 packages, 590 MB to download (2.5 GB installed), once."
	@$(call install,.[demo$(comma)parquet$(comma)network$(comma)torch$(comma)jax$(comma)plots$(comma)onnx$(comma)docs$(comma)test])
	@touch $(STAMPS)/demo

comma := ,
IS_VENV := import pip, sys; sys.exit(sys.prefix == sys.base_prefix)

# A file named "unfinished" is there while pip works. If it is there before, an earlier set-up was cut
# short and the folder may hold half a package: it is made anew. So is a .venv whose python does not start,
# or is not of a virtual environment: without pyvenv.cfg, pip would install into the machine's own Python.
# The old folder is renamed before it is removed, so that a removal cut short leaves no half of a .venv; and
# pip itself is told to refuse any other place.
define install
set -e; \
rm -rf .venv-removed; \
if [ -e .venv/unfinished ] || { [ -d .venv ] && ! .venv/bin/python -c '$(IS_VENV)' >/dev/null 2>&1; }; then \
	echo "An earlier set-up was cut short: making .venv anew."; mv .venv .venv-removed; rm -rf .venv-removed; \
fi; \
if [ ! -d .venv ]; then \
	for candidate in python3.11 python3 python3.12 python3.13 python3.14 /usr/bin/python3.11 /usr/local/bin/python3.11 none; do \
		[ $$candidate != none ] || { echo "Crescendo needs Python 3.11 or later with venv and pip: install it (Debian: python3.11-venv), then run make again." >&2; exit 1; }; \
		python=$$($$candidate -c 'import ensurepip, sys, venv; print(sys.version_info >= (3, 11) and sys.executable or "")' 2>/dev/null) || continue; \
		[ -z "$$python" ] || break; \
	done; \
	mkdir .venv; touch .venv/unfinished; \
	"$$python" -m venv .venv; \
fi; \
touch .venv/unfinished; \
PIP_REQUIRE_VIRTUALENV=1 $(INSTALL) '$(1)' || { \
	status=$$?; [ $$status -ge 128 ] || rm .venv/unfinished; \
	echo "pip could not install $(1): see the lines above, then run make again." >&2; exit $$status; \
}; \
mkdir -p $(STAMPS); touch $@; rm .venv/unfinished
endef
