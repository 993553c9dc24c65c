# make demo    photographs -> pack -> verify -> bench -> train, from nothing
# make test    every test
# Each sets itself up; nothing has to be run first.
BIN := .venv/bin
DEMO := build/demo

.PHONY: setup demo test lint clean

setup:
	@scripts/setup.sh

demo: setup
	@scripts/demo.sh $(DEMO)

test: setup
	@$(BIN)/python -m pytest -n 2 --dist loadscope

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

clean:
	rm -rf build dist *.egg-info toolkit/_native/*.so $(DEMO)
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
