# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` need nothing but git, make and a C compiler: on Debian and Ubuntu they install the rest.
# WERROR=1 makes warnings errors. BUILD names the build folder.

MAKEFLAGS += --no-print-directory
BUILD ?= build/release
WERROR ?= 0
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help demo test build format lint clean

help:
	@echo "make demo    train a classifier on Fashion-MNIST in float16, with a dynamic loss scale"
	@echo "make test    build everything and run the whole test suite"
	@echo "make build   build the libraries and the command"
	@echo "make format  lay out the sources with clang-format"
	@echo "make lint    check layout, clang-tidy and cppcheck"
	@echo "make clean   remove $(BUILD)"
	@echo "The first two install what is missing (Debian, Ubuntu); scripts/packages lists what and why."

# A folder that has the tests keeps them.
build:
	@scripts/install run
	@scripts/configure $(BUILD) $$(test -e $(BUILD)/CMakeCache.txt || echo -DGSC_BUILD_TESTS=OFF)
	cmake --build $(BUILD) -j $(JOBS)

demo:
	@scripts/install run data
	@scripts/configure $(BUILD) $$(test -e $(BUILD)/CMakeCache.txt || echo -DGSC_BUILD_TESTS=OFF)
	cmake --build $(BUILD) -j $(JOBS) --target gradscaler-cli
	$(BUILD)/cli/gradscaler train

test:
	@scripts/install run data test
	@scripts/configure $(BUILD) -DGSC_BUILD_TESTS=ON -DGSC_WERROR=$(WERROR)
	cmake --build $(BUILD) -j $(JOBS)
	cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

format:
	@scripts/lint format

lint:
	@scripts/install run test ci
	@scripts/configure $(BUILD) -DGSC_BUILD_TESTS=ON
	@scripts/lint check $(BUILD)

clean:
	rm -rf $(BUILD)
