# Everything a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: venv demo test check bench wordnet clean

venv: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: venv
	$(BIN)/kept demo

test: venv
	$(BIN)/pytest -q

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: venv
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf .venv build dist *.egg-info
