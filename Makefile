# One word for each thing to do. Everything is set up by the way (tools/bootstrap), so a fresh clone can start with any of them.
#
#   LIBTORCH=DIR     use this LibTorch (unpacked, or an installed torch package) instead of downloading one
#   PREFIX=DIR       where `make install` installs (/usr/local)
#   JOBS=N           compilers and tests at a time (the number of cores, and one test more)
#   SECONDS=N        how long each fuzz target of `make fuzz` runs (300)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PREFIX ?= /usr/local
SECONDS ?= 300
RUN ?= runs/cartpole-$(shell date +%Y%m%d-%H%M%S)

.PHONY: help train test parity bench bench-smoke count numbers check check-all build install fuzz test-asan test-gpu gpu-day test-learn test-namespaces test-slow test-soak clean distclean

help: ## this list (what a bare `make` does)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile
	@sed -n '/^#   /s/^#/ /p' Makefile

build: ## the library, the program and the examples, in build/release/bin
	@tools/bootstrap
	@tools/build release programs

train: build ## CartPole on two replicas: 150k steps, which solve it, and a picture of the curve
	@build/release/bin/tandem train --env CartPole-v1 --seed 1 --devices cpu:2 --shards 2 --run-dir $(RUN)
	@echo "The curve is in $(RUN)/curve.png, the trained policy in $(RUN)/checkpoints."

test: ## all tests that need neither a GPU nor Python packages: ten to twenty minutes on two cores, twice that from nothing
	@tools/bootstrap
	@tools/build release
	@tools/test release

parity: ## comparisons with the Python packages torch, gymnasium, numpy, tensorflow
	@tools/bootstrap --parity
	@tools/build release
	@tools/test release --label parity

bench: ## the benches, with their peers beside them, 6 GB from the Python index (ARGS="--repeats 9 ppo_cartpole", ARGS=--strict, ...)
	@tools/bootstrap
	@tools/bootstrap --bench || echo "bench: goes on without Open MPI" >&2
	@tools/build release
	@bench/run.py $(ARGS)

bench-smoke: ## whether every bench and every peer runs, and whether the answers are right
	@tools/bootstrap
	@tools/bootstrap --bench || echo "bench: goes on without Open MPI" >&2
	@tools/build release
	@bench/run.py --smoke $(ARGS)

count: ## instructions of fixed small workloads, against recorded bounds (ARGS=--accept records new ones)
	@tools/bootstrap --check
	@tools/build release counted_work
	@tools/count $(ARGS)

numbers: ## whether small runs of every kind still end in the recorded states (ARGS=--accept records new ones)
	@tools/bootstrap
	@tools/build release tandem fashion_mnist
	@tools/same_numbers $(ARGS)

check: ## format, tidy, layers, headers, lock annotations: of what changed against main
	@tools/bootstrap --check
	@tools/check

check-all: ## the same of every file
	@tools/bootstrap --check
	@tools/check --all

fuzz: ## each fuzz target for SECONDS
	@tools/bootstrap --check
	@tools/fuzz $(SECONDS)

test-gpu: ## the tests that need a CUDA device
	@tools/bootstrap
	@tools/build release tandem_gpu_tests
	@tools/test release --label gpu

gpu-day: ## all that can be tried on a CUDA device, within twenty minutes: one report that says what to mend first (ARGS="--only tests")
	@tools/bootstrap
	@tools/build release tandem tandem_gpu_tests
	@tests/gpu/day/gpu_day.py $(ARGS)

test-namespaces: ## the tests with two hosts, which are network namespaces of this machine (as root)
	@tools/bootstrap
	@tools/build release
	@tools/test release --label namespaces

test-slow: ## the tests that take minutes each: 30 faults at random instants, 100k steps on every topology, Slurm, images; over an hour (as root)
	@tools/bootstrap --deploy
	@tools/build release
	@tools/test release --label slow

test-learn: ## trainings that must reach their returns, with several seeds each: hours
	@tools/bootstrap
	@tools/build release
	@tools/test release --label learn

test-soak: ## 1,000 seeded faults over all modes, within two hours; goes on where it was (ARGS="--jobs 1", ARGS=--report, ARGS="--only 17", ARGS="--python .venv/parity/bin/python")
	@tools/bootstrap
	@tools/build release tandem standby local_steps process_test_leaving
	@tests/soak/soak.py build/release/bin/tandem $(ARGS)

test-asan: ## the unit tests, and those with several processes, under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/bootstrap --check
	@tools/build asan
	@tools/test asan --label unit
	@tools/test asan --label process

install: build ## the library and the program under PREFIX, for find_package(tandem)
	@cmake --install build/release --prefix $(PREFIX)

clean: ## everything that was built
	@rm -rf build

distclean: clean ## also what was downloaded
	@rm -rf .venv .cache
