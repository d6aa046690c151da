# Everything a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: venv demo demo-methods test test-long kill fuzz check bench wheel-test clean

venv: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: venv
	$(BIN)/kept demo

# Every method with its controls, in the same report; resumable.
demo-methods: venv
	$(BIN)/kept demo --methods all

test: venv
	$(BIN)/pytest -q

# The property tests alone, with examples of their own each time, and twenty times as many.
test-long: venv
	$(BIN)/pytest -q -m hypothesis --hypothesis-profile=long

# Each command killed at every file-system event, and gone on with; takes an hour.
kill: venv
	KEPT_KILL_STRIDE=1 $(BIN)/pytest -q -s tests/kills

# Spoilt and hostile files for every reader and opener, SECONDS each; findings stay in .fuzz/.
SECONDS ?= 60
fuzz: venv
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(TARGETS)

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: venv
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

# The tests against the built wheel, in a folder and an environment without the sources.
wheel-test: venv
	rm -rf build dist .wheel-test
	$(BIN)/python -m build
	mkdir .wheel-test
	cp -r tests docs experiments README.md pyproject.toml .wheel-test
	$(PYTHON) -m venv .wheel-test/.venv
	.wheel-test/.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
		"$$(ls dist/*.whl)[dev]"
	cd .wheel-test && .venv/bin/pytest -q

clean:
	rm -rf .venv .wheel-test build dist *.egg-info
