# SPDX-License-Identifier: Apache-2.0
# Git, make and a C compiler are enough: on Debian and Ubuntu all but `make format` install the rest.
# WERROR=1 makes warnings errors. BUILD names the build folder, PREFIX and DESTDIR where `make install` puts things.

MAKEFLAGS += --no-print-directory
BUILD ?= build/release
CUDA_BUILD ?= build/cuda
WERROR ?= 0
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help demo test test-python test-safetensors test-cuda prove fuzz check-full build install uninstall bench bench-torch \
        bench-python bench-cuda cuda format lint clean

help:
	@echo "make demo         train a classifier on Fashion-MNIST in float16, with a dynamic loss scale"
	@echo "make test         build everything and run the whole test suite"
	@echo "make test-python  install the Python package into a virtual environment and check it (PYTHON=NAME; ARGS=-h: parts)"
	@echo "make test-safetensors  compare files with those of the Python package safetensors, which it installs (PYTHON=NAME)"
	@echo "make test-cuda    the tests of the CUDA module on this machine's GPU (docs/gpu.md); without one they run in make test"
	@echo "make prove        try every 16- and 32-bit input and every short sequence of calls (docs/verification.md)"
	@echo "make fuzz         look for inputs that break readers, options or the scaler (docs/verification.md; ARGS=1200: seconds)"
	@echo "make bench        measure beside what this machine can do (docs/performance.md; ARGS=--quick: a smoke run)"
	@echo "make bench-torch  compare with PyTorch, which it installs: several GB (TORCH_VENV=FOLDER: one that has it)"
	@echo "make bench-python the same end to end from Python (TORCH_VENV=FOLDER, ARGS=--quick)"
	@echo "make bench-cuda   the CUDA module on this machine's GPU beside copying and PyTorch (TORCH_PYTHON=NAME, ARGS=--quick)"
	@echo "make check-full   all checks, those too that are too slow for CI: hours (scripts/check NAME...: some of them)"
	@echo "make build        build the libraries and the command"
	@echo "make install      build and install them, by default into $(PREFIX) (PREFIX=FOLDER, DESTDIR=FOLDER: docs/build.md)"
	@echo "make uninstall    remove what make install has installed there (PREFIX, DESTDIR)"
	@echo "make format       lay out the sources with clang-format"
	@echo "make lint         check layout, clang-tidy and cppcheck"
	@echo "make clean        remove $(BUILD)"
	@echo "What is missing is installed first (Debian, Ubuntu; not by format): scripts/packages lists what and why."

# A folder that has the tests keeps them.
build:
	@scripts/install run
	@scripts/configure $(BUILD) $$(test -e $(BUILD)/CMakeCache.txt || echo -DGSC_BUILD_TESTS=OFF)
	cmake --build $(BUILD) -j $(JOBS)

install: build
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/prefix install "$(BUILD)"

uninstall:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/prefix uninstall

demo:
	@scripts/install run data
	@scripts/configure $(BUILD) $$(test -e $(BUILD)/CMakeCache.txt || echo -DGSC_BUILD_TESTS=OFF)
	cmake --build $(BUILD) -j $(JOBS) --target gradscaler-cli
	$(BUILD)/cli/gradscaler train

test:
	@scripts/install run data test
	@scripts/configure $(BUILD) -DGSC_BUILD_TESTS=ON -DGSC_WERROR=$(WERROR)
	cmake --build $(BUILD) -j $(JOBS)
	@scripts/run-tests $(BUILD) -j $(JOBS)

test-python:
	@scripts/install run python
	@bindings/python/check $(ARGS)

test-safetensors:
	@scripts/install run test python
	@scripts/configure $(BUILD) -DGSC_BUILD_TESTS=ON
	cmake --build $(BUILD) -j $(JOBS) --target gradscaler-cli safetensors_exchange
	tests/system/safetensors/check $(BUILD)

# The module, its tests and its benchmark; they need nvcc, which is fetched where it is missing.
cuda:
	@scripts/install run test cuda
	@scripts/configure $(CUDA_BUILD) -DGSC_TRAIN=OFF -DGSC_CUDA=ON -DGSC_CUDA_COMPILER="$$(scripts/nvcc)" -DGSC_BUILD_TESTS=ON
	cmake --build $(CUDA_BUILD) -j $(JOBS) --target gradscaler-cuda-all

test-cuda:
	@scripts/need-gpu "make test-cuda"
	@$(MAKE) cuda
	@tests/cuda/gpu/run $(CUDA_BUILD)

prove:
	@scripts/install run test
	@scripts/configure $(BUILD) -DGSC_BUILD_TESTS=ON
	cmake --build $(BUILD) -j $(JOBS) --target prove_kernels prove_sequences
	$(BUILD)/tests/proof/kernels/prove_kernels
	$(BUILD)/tests/proof/sequences/prove_sequences

fuzz:
	@scripts/install run fuzz
	@fuzz/run $(ARGS)

check-full:
	@scripts/check --all

bench:
	@scripts/install run
	@scripts/configure $(BUILD) -DGSC_BUILD_BENCH=ON $$(test -e $(BUILD)/CMakeCache.txt || echo -DGSC_BUILD_TESTS=OFF)
	cmake --build $(BUILD) -j $(JOBS) --target bench
	$(BUILD)/bench/bench --json $(BUILD)/bench.json $(ARGS)

bench-torch: build
	@test -n "$(TORCH_VENV)" || scripts/install torch
	@bench/torch/run $(BUILD) $(ARGS)

bench-python:
	@scripts/install run python
	@bench/python/run $(BUILD)/python $(ARGS)

bench-cuda:
	@scripts/need-gpu "make bench-cuda"
	@$(MAKE) cuda
	@bench/cuda/run $(CUDA_BUILD) $(ARGS)

format:
	@scripts/lint format

lint:
	@scripts/install run test ci python
	@scripts/configure $(BUILD) -DGSC_BUILD_TESTS=ON
	@scripts/lint check $(BUILD)

clean:
	rm -rf $(BUILD)
