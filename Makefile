# make demo   install calque into .venv and run the main job
# make test   install calque with its test tools into .venv and run all tests
# make test-slow, make levels, make clients, make libraries, make array-api, make jax-tests, make jax-docs, make programs, make lint,
# make bench, make bench-clients, make docs, make site, make clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# where images of Python set it, each of the tests' processes would compile every module anew
unexport PYTHONDONTWRITEBYTECODE
KERNELS := $(wildcard lowering/native/*.c lowering/native/*.h lowering/native/[A-Z]*S)

# make fuzz MINUTES=30 [LEVEL=x86-64-v3]

.PHONY: demo test test-processes test-devices test-slow levels clients libraries array-api jax-tests jax-docs jax-benchmarks programs lint fuzz bench bench-clients docs site system system-cpp release test-wheel native version clean

# What a bare Debian + Python 3.11 lacks: venv (and with it pip), a C compiler for the kernels of
# linear algebra, without which the package takes slower forms, and jemalloc, without which compiles
# take longer.  The C++ library's tests take cmake, g++ and libpython; without them they are skipped.
system:
	@if ! command -v cc >/dev/null 2>&1; then \
	  echo "== installing system packages: gcc libc6-dev (apt-get)"; \
	  apt-get update -q && apt-get install -y -q gcc libc6-dev; fi || \
	  echo "== no C compiler: the kernels in C are left out"
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "== installing system packages: python3 python3-venv (apt-get)"; \
	  apt-get update -q && apt-get install -y -q python3 python3-venv; \
	else echo "== system packages: nothing to install"; fi
	@ls /usr/lib*/libjemalloc.so.2 /usr/lib/*/libjemalloc.so.2 2>/dev/null | grep -q . || { \
	  echo "== installing system packages: libjemalloc2 (apt-get)"; \
	  apt-get update -q && apt-get install -y -q libjemalloc2; } || \
	  echo "== no jemalloc: compiles take up to a tenth longer"

system-cpp:
	@if ! { command -v cmake && command -v g++; } >/dev/null 2>&1 || ! $(PYTHON) -c \
	  'import os, sysconfig as s; assert os.path.exists(s.get_path("include") + "/Python.h")' 2>/dev/null; then \
	  echo "== installing system packages: cmake g++ python3-dev (apt-get)"; \
	  apt-get update -q && apt-get install -y -q cmake make g++ python3-dev; fi || \
	  echo "== the tests of the C++ library are skipped"

$(VENV)/.made: | system
	@echo "== making the virtual environment $(VENV)"
	$(PYTHON) -m venv $(VENV)
	@touch $@

# the kernels in C are compiled while pip loads the packages; its own build waits for them
COMPILE_KERNELS = ($(BIN)/python lowering/native/build.py >/dev/null 2>&1 &)

$(VENV)/.demo: $(VENV)/.made pyproject.toml $(KERNELS)
	@echo "== installing calque and what it needs (numpy, ml_dtypes, optree, iree compiler and runtime)"
	$(COMPILE_KERNELS)
	$(BIN)/python -m pip install --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml $(KERNELS)
	@echo "== installing calque with its test tools"
	$(COMPILE_KERNELS)
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: system-cpp $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not vulkan" --durations=25
	$(MAKE) --jobs=2 --output-sync=target test-processes test-devices lint

test-processes: $(VENV)/.test
	$(BIN)/python -m pytest tests/processes -m "not slow and not vulkan" --durations=5

test-devices: $(VENV)/.test
	$(BIN)/python -m pytest tests/devices -m "not slow and not vulkan" --durations=5

test-slow: system-cpp $(VENV)/.test $(VENV)/.site
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal
	$(BIN)/python -m pytest tests/devices -n $(JOBS) --dist worksteal
	$(BIN)/python -m pytest tests/processes

# the samples as an older CPU of this architecture would run them: make levels [LEVELS=x86-64-v3]
levels: $(VENV)/.test
	$(BIN)/python tests/levels.py --jobs $(JOBS) $(LEVELS)

# programs of clients and a sample of the libraries' own tests, against jax: make clients [SAMPLE=60]
# [SEED=1] [LIBRARIES="optax chex"], or make clients TESTS=folder (the tests of any checkout)
CLIENTS := build/clients
SAMPLE ?= 60
SEED ?= 1
OURS := $(CURDIR)/$(CLIENTS)/calque/bin/python
THEIRS := $(CURDIR)/$(CLIENTS)/jax/bin/python
PYTHONS = --calque $(OURS) --jax $(THEIRS)

$(CLIENTS)/.made: tests/clients/requirements.txt $(VENV)/.test
	@echo "== making two environments of the libraries: with calque, and with jax"
	$(PYTHON) -m venv $(CLIENTS)/calque
	$(PYTHON) -m venv $(CLIENTS)/jax
	$(CLIENTS)/calque/bin/python -m pip install --disable-pip-version-check --no-deps -r tests/clients/requirements.txt
	$(CLIENTS)/calque/bin/python -m pip install --disable-pip-version-check -e .
	$(CLIENTS)/jax/bin/python -m pip install --disable-pip-version-check --no-deps -r tests/clients/requirements.txt
	$(CLIENTS)/jax/bin/python -m pip install --disable-pip-version-check jax==0.10.2
	@touch $@

clients: $(CLIENTS)/.made
ifdef TESTS
	$(BIN)/python tests/clients/libraries.py $(PYTHONS) --sample $(SAMPLE) --seed $(SEED) --tests $(TESTS)
else
	$(BIN)/python tests/clients/compare.py $(PYTHONS) --write
	$(OURS) -m calque.compat tests/clients/tutorials.py
	$(BIN)/python tests/clients/libraries.py $(PYTHONS) --sample $(SAMPLE) --seed $(SEED) --write $(LIBRARIES)
endif

# the main uses of some ninety libraries, with calque and with jax: make libraries [LIBRARIES="keras brax"]
$(CLIENTS)/.more: tests/clients/more_requirements.txt $(CLIENTS)/.made
	$(OURS) -m pip install --disable-pip-version-check --no-deps -r tests/clients/more_requirements.txt
	$(THEIRS) -m pip install --disable-pip-version-check --no-deps -r tests/clients/more_requirements.txt
	@touch $@

libraries: $(CLIENTS)/.more
	$(BIN)/python tests/clients/table.py $(PYTHONS) --write $(LIBRARIES)

# the Array API standard's tests, from a checkout of data-apis/array-api-tests with its submodule
# array-api: make array-api SUITE=folder [JAX=python of an environment with jax and the same tools]
array-api: $(VENV)/.test
	$(BIN)/python -m pip install -q --disable-pip-version-check -r $(SUITE)/requirements.txt
	$(BIN)/python tests/clients/array_api.py --suite $(SUITE) $(if $(JAX),--jax $(JAX)) --write

# JAX's own tests with calque and with jax, from a checkout of release 0.10.2:
# make jax-tests TESTS=folder-of-its-tests [FILES="api_test.py"] [SECONDS=600] [EVERY=1] [DEVICES=8]
SUITE_ENV := build/jax_suite/env
SECONDS ?= 600
EVERY ?= 1

$(SUITE_ENV)/.made: tests/jax_suite/requirements.txt $(VENV)/.test
	$(PYTHON) -m venv $(SUITE_ENV)
	$(SUITE_ENV)/bin/python -m pip install -q --disable-pip-version-check -e . -r tests/jax_suite/requirements.txt
	@touch $@

jax-tests: $(SUITE_ENV)/.made
	$(SUITE_ENV)/bin/python tests/jax_suite/run.py --tests $(TESTS) --seconds $(SECONDS) --every $(EVERY) \
	  $(if $(DEVICES),--devices $(DEVICES)) --write $(FILES)

# make jax-docs PAGES=folder-of-its-docs [FILES="jit-compilation.md api:jax.numpy"]
jax-docs: $(SUITE_ENV)/.made
	$(SUITE_ENV)/bin/python tests/jax_docs/run.py --docs $(PAGES) --write $(FILES)

# make jax-benchmarks FOLDER=folder-of-its-benchmarks
jax-benchmarks: $(SUITE_ENV)/.made
	$(SUITE_ENV)/bin/python -m pip install -q --disable-pip-version-check google-benchmark
	$(SUITE_ENV)/bin/python benchmarks/jax_own.py $(FOLDER) --write

# make programs FOLDER=folder-of-checkouts [NAMES="nbody jraph"]; what they import is for you to install in $(SUITE_ENV)
programs: $(SUITE_ENV)/.made
	$(SUITE_ENV)/bin/python tests/programs/run.py --folder $(FOLDER) --write $(NAMES)

# modules that have a stub beside them, behind which mypy does not look
SHADOWED = $(filter-out %/dispatch/array.py,$(patsubst %.pyi,%.py,$(shell find frontend/calque -name '*.pyi')))

lint: $(VENV)/.test
	$(BIN)/ruff check .
	MYPYPATH=frontend $(BIN)/mypy -p calque -p calque_cli
	MYPYPATH=frontend $(BIN)/mypy --cache-dir .mypy_cache/shadowed $(SHADOWED)

bench: $(VENV)/.test
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	$(BIN)/python benchmarks/run.py --write
	$(BIN)/python benchmarks/suite.py --write
	$(BIN)/python benchmarks/suite.py --level x86-64-v3 --write
	$(BIN)/python benchmarks/first_call.py --write
	$(BIN)/python benchmarks/small_loops.py --write
	$(BIN)/python benchmarks/chains.py --steps 10 100 300 --write
	$(MAKE) bench-clients

# training steps of flax and equinox models, with calque and with jax
bench-clients: $(CLIENTS)/.made
	$(BIN)/python benchmarks/clients.py $(PYTHONS) --write

# the documentation as a site in build/site; a page, a link or an anchor that is wrong is an error
$(VENV)/.site: $(VENV)/.made pyproject.toml
	@echo "== installing calque with what builds the site"
	$(COMPILE_KERNELS)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[site]'
	@touch $@

site: $(VENV)/.site
	$(BIN)/python docs/scripts/figures.py --check
	$(BIN)/python docs/scripts/site_build.py build/site

# random programs for so long: over the public API and compositions (CALQUE_FUZZ_JAX names a Python with
# JAX, an oracle more), and over primitives; logs are in build/ and are resumed
MINUTES ?= 30
LEVEL ?= host
fuzz: $(VENV)/.test
	-$(BIN)/python tests/fuzz_api.py --level $(LEVEL) --log build/fuzz_api.jsonl --resume \
	  --minutes $$(($(MINUTES) * 60 * 3 / 10))s
	-$(BIN)/python tests/fuzz_compose.py --level $(LEVEL) --log build/fuzz.jsonl --resume \
	  --minutes $$(($(MINUTES) * 60 * 2 / 10))s
	-$(BIN)/python tests/fuzz.py --level $(LEVEL) --log build/fuzz.jsonl --resume \
	  --minutes $$(($(MINUTES) * 60 * 3 / 10))s
	-$(BIN)/python tests/fuzz.py --whole --level $(LEVEL) --log build/fuzz.jsonl --resume \
	  --minutes $$(($(MINUTES) * 60 * 1 / 10))s
	-$(BIN)/python tests/fuzz_devices.py --level $(LEVEL) --log build/fuzz.jsonl --resume \
	  --minutes $$(($(MINUTES) * 60 * 1 / 10))s
	$(BIN)/python tests/fuzz_search.py build/fuzz_api.jsonl build/fuzz.jsonl

# the sdist and the wheels of a release, in dist: make release [ONCE=1]; ziglang stands in for gcc, or for
# its cross compiler, where they are missing
RELEASE_ENV := build/release-env
HAVE_GCC = command -v gcc && { command -v aarch64-linux-gnu-gcc || test "$$(uname -m)" = aarch64; } && \
  { command -v x86_64-linux-gnu-gcc || test "$$(uname -m)" = x86_64; }

$(RELEASE_ENV)/.made: release/requirements.txt release/requirements-zig.txt
	$(PYTHON) -m venv $(RELEASE_ENV)
	$(RELEASE_ENV)/bin/python -m pip install -q --disable-pip-version-check -r release/requirements.txt
	@{ $(HAVE_GCC); } >/dev/null || $(RELEASE_ENV)/bin/python -m pip install -q --disable-pip-version-check \
	  -r release/requirements-zig.txt
	@touch $@

release: $(RELEASE_ENV)/.made
	$(RELEASE_ENV)/bin/python release/build.py $(if $(ONCE),--once)

# the wheel in dist, or a new one, as it is installed: make test-wheel [VERSIONS="3.11 3.12"]
test-wheel:
	@ls dist/calque-*-any.whl >/dev/null 2>&1 || $(MAKE) release ONCE=1
	$(PYTHON) release/installed.py $(if $(VERSIONS),--pythons $(VERSIONS))

# the C++ library on IREE's C runtime as a wheel in dist: make native IREE_SOURCE=folder [DRIVERS=local-sync,local-task],
# or make native IREE=prefix of a runtime that is installed (docs/native.md)
NATIVE_ENV := build/native-env

$(NATIVE_ENV)/.made: release/requirements-native.txt
	$(PYTHON) -m venv $(NATIVE_ENV)
	$(NATIVE_ENV)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

native: $(NATIVE_ENV)/.made
	$(NATIVE_ENV)/bin/python release/native.py $(if $(IREE_SOURCE),--iree-source $(IREE_SOURCE)) \
	  $(if $(IREE),--iree $(IREE)) $(if $(DRIVERS),--drivers $(DRIVERS))

# the version, which must be the same everywhere: make version [NEW=0.2.0]; the one that it is dates its changes
version:
	@$(PYTHON) release/version.py $(NEW)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
