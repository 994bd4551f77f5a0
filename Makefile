# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
PYTHON ?= python3
DENIZEN_CUDA ?= ON
BUILD ?= build/release
OUT ?= build/results
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

FLAGS := -DDENIZEN_CUDA=$(DENIZEN_CUDA)
EXTRAS := flights$(if $(wildcard /dev/nvidiactl),$(comma)gpu)
comma := ,
# The wheel is built in the folder that also holds the tests, so nothing is compiled twice.
WHEEL := --no-build-isolation -Cbuild-dir=$(BUILD) -Ccmake.define.DENIZEN_CUDA=$(DENIZEN_CUDA)
SOURCES := CMakeLists.txt pyproject.toml \
    $(shell find benchmarks cmake include lens python src tools -path benchmarks/results -prune -o -type f ! -name '*.pyc' -print 2>/dev/null)
PARTS := $(filter-out install model python support,$(patsubst tests/%/,%,$(wildcard tests/*/)))
# ThreadSanitizer needs a predictable address space.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help run test build install system lint format clean gpu-install gpu-test gpu-bench \
    gpu-sanitize test-cpp test-python test-tsan test-asan test-model test-install $(PARTS:%=test-%)

help:
	@echo 'make run        set up, build, replay real flights through resident actors'
	@echo 'make test       every check; one alone: lint $(PARTS:%=test-%)'
	@echo '                test-python test-tsan test-asan test-model test-install'
	@echo 'make gpu-test   tests that use a GPU, with what the system has (no download)'
	@echo 'make gpu-sanitize  small runs under compute-sanitizer; PREBUILT=1: of the programs in BUILD'
	@echo 'make gpu-bench  all experiments, records into OUT=folder; QUICK=--quick'

run: install
	denizen run flights

test:
	@tools/run-parts system lint build test-cpp test-python test-tsan test-asan test-model test-install

# --- set-up: everything from PyPI into .venv; only tests need packages of the system ---
$(VENV)/.tools: pyproject.toml constraints.txt tools/nvcc.py
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	tools/system-packages --python-headers $(VENV)/bin/python
	python -m pip install -q --upgrade 'pip>=25.1'
	python -m pip install -q -c constraints.txt --group build
	[ $(DENIZEN_CUDA) = OFF ] || python tools/nvcc.py --installed 2>/dev/null || python -m pip install -q --group cuda
	touch $@

$(VENV)/.dev: $(VENV)/.tools
	python -m pip install -q -c constraints.txt --group dev
	touch $@

$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	python -m pip install $(WHEEL) '.[$(EXTRAS)]'
	touch $@

install: $(VENV)/.installed

system:
	@tools/system-packages

# --- build and tests ---
build: $(VENV)/.tools
	cmake --preset release -B $(BUILD) $(FLAGS) -DDENIZEN_PYTHON=ON
	cmake --build $(BUILD) -- -k 0

CTEST := ctest --output-on-failure --no-tests=error
test-cpp: build
	$(CTEST) --test-dir $(BUILD)

# One part: its C++ tests and its Python tests.
$(PARTS:%=test-%): test-%: build install $(VENV)/.dev
	ctest --output-on-failure --test-dir $(BUILD) -L '^$*$$'
	@files=$$(find tests/$* -name 'test_*.py'); [ -z "$$files" ] || python -m pytest $$files

test-python: install $(VENV)/.dev
	python -m pytest

test-tsan test-asan: test-%: $(VENV)/.tools
	cmake --preset $*
	cmake --build build/$* -- -k 0
	TSAN_OPTIONS=halt_on_error=1 $(FIXED_ADDRESSES) $(CTEST) --test-dir build/$*

test-model:
	tests/model/check.sh

# A stranger's project finds the installed tree, and the tree inside the Python package.
test-install: build install
	rm -rf build/prefix
	cmake --install $(BUILD) --prefix build/prefix --component denizen
	package=$$(cd / && python -c 'import denizen; print(denizen.get_include().parent)') && \
	for root in $(CURDIR)/build/prefix "$$package"; do \
	    rm -rf build/consumer && \
	    cmake -S tests/install -B build/consumer -G Ninja -DCMAKE_PREFIX_PATH="$$root" && \
	    grep "^denizen_DIR:PATH=$$root/" build/consumer/CMakeCache.txt && \
	    cmake --build build/consumer && build/consumer/consumer || exit 1; done

lint: $(VENV)/.dev
	clang-format --dry-run --Werror $$(git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.cu')
	ruff check .
	ruff format --check .
	mypy

format: $(VENV)/.dev
	clang-format -i $$(git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.cu')
	ruff check --fix .
	ruff format .

# --- on a GPU machine without a network: system Python, CMake, ninja and CUDA ---
gpu-install:
	python3 -m pip install -q --no-index --no-deps --upgrade --target $(BUILD)/site $(WHEEL) .

gpu-test: gpu-install
	cmake --preset release -B $(BUILD) $(FLAGS)
	cmake --build $(BUILD) -- -k 0
	status=0; ctest --output-on-failure --test-dir $(BUILD) -L '^(device|gpu)$$' || status=1; \
	PYTHONPATH=$(CURDIR)/$(BUILD)/site python3 -m pytest -p no:cacheprovider || status=1; exit $$status

# Memory errors: the arena, by tests of a second or less without the tool. A resident program does not
# start under it (10 s and more on an H200, kernels loaded lazily or eagerly). Races and barriers:
# kernels that share an SM's memory by barriers. The rest order that memory by acquire and release of
# words of their own, which racecheck takes for hazards.
# compute-sanitizer comes with the CUDA toolkit, or as the wheel nvidia-cuda-sanitizer-api.
# PREBUILT=1: the programs are in BUILD already, and nothing is compiled.
SANITIZE = timeout -k 5 600 compute-sanitizer --error-exitcode 1 --tool
SANITIZED_WAVE := *columns_of_passes/gpu
gpu-sanitize:
ifndef PREBUILT
	cmake --preset release -B $(BUILD) $(FLAGS)
	cmake --build $(BUILD) -t test_memory_arena test_wave_methods
endif
	compute-sanitizer --version
	@$(BUILD)/tests/wave/test_wave_methods --gtest_list_tests --gtest_filter='$(SANITIZED_WAVE)' | grep -q gpu || \
	    { echo 'gpu-sanitize: the tests see no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES' >&2; exit 1; }
	$(SANITIZE) memcheck $(BUILD)/tests/memory/test_memory_arena --gtest_filter='*/gpu'
	for tool in racecheck synccheck; do \
	    $(SANITIZE) $$tool --kernel-name kernel_substring=wave_pass \
	        $(BUILD)/tests/wave/test_wave_methods --gtest_filter='$(SANITIZED_WAVE)' || exit 1; done

gpu-bench: gpu-install
	PYTHONPATH=$(CURDIR)/$(BUILD)/site python3 -m denizen bench all --out $(OUT) $(QUICK)

clean:
	rm -rf build
