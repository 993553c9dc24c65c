# make demo      photographs -> pack -> verify -> bench -> train, from nothing
# make test      every test; one that fails is run once more alone, and told by name if it passes then
# make matrices  every kill, failure and flip of which make test takes a part
# make fuzz      made-up inputs, SECONDS=60 for each target; TARGETS="jpeg kernels" for some of them; SEED=0 for the
#                same inputs each time
# make sanitize  native code under ASan, UBSan and TSan
# Each sets itself up; nothing has to be run first.
BIN := .venv/bin
DEMO := build/demo
SECONDS := 60
JOBS := 2
SEED :=

.PHONY: setup demo test matrices lint fuzz sanitize clean

setup:
	@scripts/setup.sh

demo: setup
	@scripts/demo.sh $(DEMO)

test: setup
	@scripts/test.sh

matrices: setup
	@EVERY_CASE=1 $(BIN)/python -m pytest -n 2 --dist loadscope $$(grep -rl '^from matrix import' tests)

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/stubtest toolkit._native --concise --mypy-config-file pyproject.toml --ignore-disjoint-bases --allowlist scripts/stubtest.txt
	@$(BIN)/lint-imports

fuzz: setup
	@scripts/clang.sh
	@$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(TARGETS)

sanitize: setup
	@scripts/sanitize.sh

clean:
	rm -rf build dist *.egg-info toolkit/_native/*.so toolkit/_native/*/*.so $(DEMO)
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
