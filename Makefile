# These two commands do everything on a fresh machine, set-up included:
#
#   make demo    train a model on TFRecord data that TensorFlow wrote
#   make test    lint, types, docs, native tests with sanitizers, unit tests, comparisons with TensorFlow
#
# `make slow` runs the tests that take longer, and `make long` those that take hours. CI runs .ci/run.
PYTHON ?= python3
VENV := .venv
TF_VENV := .venv-tf
BIN := $(CURDIR)/$(VENV)/bin
# Fuzzing time per target; $(JOBS) targets run at a time. Run longer with `make fuzz SECONDS=3600`.
SECONDS ?= 3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Keep bytecode: the tests start many processes, which would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test slow long setup setup-tf native-headers browser build lint types docs unit slow-tests native fuzz sanitize package wheel
.PHONY: bench compare coverage stub format mutants trainers clean serve

demo: build
	python examples/train_digits.py

# Both environments are set up at once, because pip uses one core.
test:
	$(MAKE) -j 2 setup setup-tf
	$(MAKE) lint types docs native unit

# Fuzz for a short time, run sanitizers with Python, test the package, and run the tests marked slow: faults, kills,
# trainers, clusters, stores, files that TensorFlow writes. Fuzzing begins with the same seed each time, so that a failure
# can be repeated; that of `long` does not.
slow: export FUZZ_SEED := 1
slow:
	$(MAKE) -j 2 setup setup-tf
	$(MAKE) fuzz sanitize package slow-tests

# Run the longest tests: 10 minutes of fuzzing per target, the wheel without native decoders, the build for OSS-Fuzz, a
# short soak test, 1000 examples per property, faults of all calls, and the tests marked long.
long: setup build setup-tf
	$(MAKE) fuzz SECONDS=600
	tests/package/run.sh build/package --without-libraries
	tests/fuzz/oss-fuzz/check.sh build/oss-fuzz
	python -m benchmarks.soak --minutes 0.5
	$(PYTEST) --timeout 3600 --hypothesis-profile long

# ---- set-up ----

setup: $(VENV)/.ready
setup-tf: $(TF_VENV)/.ready

# Python compiles what it imports: pip would take two minutes to compile all that it installs.
PIP_INSTALL := pip install -q --no-compile

# Build the package and install what it needs to run: enough for `make demo`. Build tools come first, because an
# isolated build would install its own.
$(VENV)/.built: pyproject.toml constraints.txt
	$(MAKE) native-headers
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP_INSTALL) -c constraints.txt scikit-build-core nanobind cmake ninja
	$(BIN)/$(PIP_INSTALL) -c constraints.txt --no-build-isolation \
	  --config-settings build-dir=build/editable -e .
	touch $@

# Add what checks, tests and docs need. The package is installed, so pip does not build it again. Old releases of pip know
# no dependency groups.
$(VENV)/.ready: $(VENV)/.built
	$(BIN)/$(PIP_INSTALL) -c constraints.txt 'pip>=25.1'
	$(BIN)/$(PIP_INSTALL) -c constraints.txt --group dev
	touch $@

# Install the headers of libjpeg-turbo and libdeflate, which native decoding of JPEGs and PNGs needs, if they are
# missing. Where that is not possible, Pillow decodes these, and the tests, which need all decoders, fail.
native-headers:
	@if printf '#include <stdio.h>\n#include <jpeglib.h>\n#include <libdeflate.h>\n' | $(CC) -x c -fsyntax-only - 2> /dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  apt-get -qq update && apt-get -qq install -y libdeflate-dev libjpeg-dev > /dev/null; \
	else \
	  echo "JPEGs or PNGs will be decoded more slowly: install the headers of libjpeg-turbo and libdeflate" \
	    "(Debian: libjpeg-dev libdeflate-dev), then run 'make clean setup'"; \
	fi

# Install the browser that opens reports in tests, if there is none. Without it, these tests are skipped,
# which is a failure in CI.
browser:
	@if command -v chromium > /dev/null || command -v google-chrome > /dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  apt-get -qq update && apt-get -qq install -y chromium > /dev/null; \
	else \
	  echo "reports are not tested in a browser: install Chromium (Debian: chromium)"; \
	fi

$(TF_VENV)/.ready: constraints-tf.txt
	$(PYTHON) -m venv $(TF_VENV)
	$(TF_VENV)/bin/$(PIP_INSTALL) -c constraints-tf.txt \
	  tensorflow-cpu tensorflow-datasets lazy-loader pillow scikit-learn
	touch $@

# Rebuild changed native code. Importing the module does not rebuild it, because every test process
# would check for changes.
build: $(VENV)/.built
	python -c "import importlib.util as util; util.find_spec('torchrec_io._core').loader.rebuild()"

# ---- checks ----

MAKE_STUB = python -m nanobind.stubgen -q -m torchrec_io.$(1) -o $(2)/$(1).pyi
# A build without libjpeg-turbo has no _jpeg, and one without libdeflate no _png.
IF_BUILT = ! python -c "import torchrec_io.$(1)" 2> /dev/null ||
CPP := $(shell git ls-files '*.h' '*.cpp' 2>/dev/null)

lint: setup
	ruff format --check .
	ruff check .
	clang-format --dry-run --Werror $(CPP)
	zizmor -q --offline .github
	! command -v go > /dev/null || go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

types: setup build
	mypy --num-workers $(JOBS)
	python tests/package/check_typed.py
	$(call MAKE_STUB,_core,build)
	diff build/_core.pyi torchrec_io/_core.pyi
	$(call IF_BUILT,_jpeg) $(call MAKE_STUB,_jpeg,build)
	$(call IF_BUILT,_jpeg) diff build/_jpeg.pyi torchrec_io/_jpeg.pyi
	$(call IF_BUILT,_png) $(call MAKE_STUB,_png,build)
	$(call IF_BUILT,_png) diff build/_png.pyi torchrec_io/_png.pyi

# Build the documentation site in build/site. Warnings are errors, but not with -q. (The variable turns off a notice of
# mkdocs-material about its future.)
docs serve: export NO_MKDOCS_2_WARNING := 1
docs: setup
	mkdocs build --strict -d build/site

native: setup
	JOBS=$(JOBS) tests/native/build.sh build/native native_tests
	ctest --test-dir build/native --no-tests=error --output-on-failure -j $(JOBS)

fuzz: setup build
	JOBS=$(JOBS) tests/fuzz/run.sh build/native $(SECONDS)

# Run threads, workers and exits with the core under TSan, and under ASan and UBSan. SECONDS is the
# time of each of 16 scenarios with each sanitizer.
sanitize: setup
	python -m tests.sanitize.run build --seconds $(SECONDS) --jobs $(JOBS)

# Check that the wheel, built from the sdist, works outside the checkout.
package: setup
	tests/package/run.sh build/package

# Build the sdist and all wheels, and test them with each installed version of Python from 3.11, with
# the lowest and newest dependencies. Writes an SBOM.
wheel: setup
	python tests/package/wheels.py build/wheel

# `unit` runs the quick tests, `slow-tests` the others, and `long` all. Tests often wait for processes, so one more runs
# at a time than there are cores. Tests of a module stay together, because many share servers.
PYTEST = python -m pytest -n $$(($(JOBS) + 1)) --dist worksteal
unit: setup build setup-tf browser
	$(PYTEST) -m "not slow and not long"

slow-tests: setup build setup-tf browser
	$(PYTEST) -m "slow and not long"

# Show which lines the quick tests run; lines that run only in processes of their own are not counted.
coverage: setup build setup-tf browser
	$(PYTEST) --cov=torchrec_io --cov-report=term:skip-covered --cov-report=html:build/coverage -m "not slow and not long"

# Change the core at 100 random places, and see whether the tests notice each change (hours).
mutants: setup build setup-tf
	python -m tests.mutants

# Count records under each trainer, in all ways to use it (an hour), also with the second newest
# Accelerate. The results make the table of tests/trainers/results.md.
OLD_ACCELERATE := 1.14.0
trainers: setup build
	python -m tests.trainers.full
	python -m pip install -q --no-deps --upgrade --target build/accelerate accelerate==$(OLD_ACCELERATE)
	PYTHONPATH=$(CURDIR)/build/accelerate python -m tests.trainers.full --check accelerate transformers

# ---- tools ----

# Serve the site at http://127.0.0.1:8000 and rebuild it when a page or docstring changes.
serve: setup
	mkdocs serve

# Each peer has its own environment in benchmarks/venvs. Peers that cannot be installed are skipped.
bench: setup build setup-tf
	python benchmarks/run.py

# Compare the speed with that of another commit, in the same run: `make compare BASE=main`.
BASE ?= HEAD^
compare: build
	rm -rf build/base && mkdir -p build/base
	git archive $(BASE) | tar -x -C build/base
	$(MAKE) -C build/base build
	for tree in . build/base; do $$tree/$(VENV)/bin/$(PIP_INSTALL) -c constraints.txt 'torchrec-io[remote]' || exit; done
	python -m benchmarks.trees build/base/$(VENV)/bin/python --rounds 5 --least 0.7

# Regenerate the stubs of the native modules.
stub: setup build
	$(call MAKE_STUB,_core,torchrec_io)
	$(call IF_BUILT,_jpeg) $(call MAKE_STUB,_jpeg,torchrec_io)
	$(call IF_BUILT,_png) $(call MAKE_STUB,_png,torchrec_io)

format: setup
	ruff format .
	ruff check --fix .
	clang-format -i $(CPP)

clean:
	rm -rf build dist benchmarks/venvs $(VENV) $(TF_VENV)
