# The front door. Every target installs what it misses (scripts/install-deps.sh) and says so.
#   make demo      Redis on glibc, jemalloc and Strata in turn      (QUICK=1: a short one)
#   make learn     records a server of ours, trains a model of it and runs it with the model: what
#                  that saves, in two minutes                    (QUICK=1: a short one)
#   make hades     CrestDB with values that stay and with values that move: speed, memory, and a
#                  picture of the address space, in two minutes    (QUICK=1: a short one)
#   make test      everything that has to hold: programs, threads, sanitizers, sources
#   make pairs     all pairs (cases and modes, servers and heaps) of which make test runs a part
#   make test-arm  the library on a whole arm64 machine, with rseq: Debian's kernel in qemu-system,
#                  in six minutes
#   make test-kernel  the library on Linux 6.12, with DAMON: Debian 13's kernel in qemu-system, in two
#                  minutes
#   make bench     writes docs/benchmarks/works.md anew, in 15 minutes (QUICK=1: a short one, beside it;
#                  GROUP=experiments|sampling|adaptive|limits|cycle|fill|heaps|hoard|taxonomy|reaps|pools|
#                  servers|lifetimes|accuracy|hades|pageutil|contexts|lint|price|bugs: docs/benchmarks/GROUP.md instead)
#   make lib       build/lib/libstrata.so and .a, and build/lib/libstrata-HEAP.so for each heap; with
#                  APR's headers libstrata-apr.so, too
#   make crestdb   build/bin/crestdb, a key-value store over ten index structures whose values move
#                  (docs/crestdb.md)
#   make compiler  build/bin/strata-cxx, clang 19 that turns marked pointers into ones whose objects
#                  move (docs/compiler.md)
#   make analyzer  build/bin/strata-lint-engine, what `.venv/bin/strata lint` finds misuse of memory,
#                  files, locks and format strings with (docs/lint.md)
#   make servers   what puts nginx's and Apache's pools on reaps: build/servers (docs/servers.md)
#   make tools     .venv/bin/strata, and qemu-user for `strata pageutil`
#   make golden    rewrites tests/golden for both compilers, to be reviewed as a diff
#   make fuzz      each fuzz target for FUZZ_SECONDS (60)
#   make stress    objects that move under threads that change and free them, for STRESS_SECONDS (600)
#   make mutants   whether the unit tests notice each small mistake of tests/mutants
#                  (AREA=span: one list; ONLY=NAME: those with such a name)
#   make install   to PREFIX (/usr/local) under DESTDIR
#   make packages  out/packages: Debian packages, a wheel, a Rust crate (docs/installing.md)
#   make checked-suites  the suites of Redis, SQLite and Python under STRATA_CHECK=on, over an hour
#   make test-packages  installs each of them where nothing else is, uses it and removes it
.PHONY: all lib servers crestdb compiler analyzer tools test pairs test-arm test-kernel golden demo learn hades bench fuzz stress mutants format lint install packages test-packages checked-suites clean
.DEFAULT_GOAL := lib

DEPS := ./scripts/install-deps.sh
PYTHON := .venv/bin/python
LIB := build/lib/libstrata.so
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
STRESS_SECONDS ?= 600
QUICK_FLAG := $(if $(filter-out 0,$(QUICK)),--quick)

all: lib tools

lib:
	@$(DEPS) build
	@echo "== building $(LIB), build/lib/libstrata.a and the heaps beside them (gcc, release)"
	@cmake --preset release -DSTRATA_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX) >build/configure-release.log \
	  || { cat build/configure-release.log; exit 1; }
	@cmake --build --preset release -j $(JOBS) --target strata_shared strata_static strata_heaps strata_trace strata_replay strata_simulate \
	  strata_pageutil_plugin strata_places strata_servers

servers:
	@$(DEPS) servers
	@$(MAKE) --no-print-directory lib
	@echo "== building the modules for nginx and Apache in build/servers"
	@servers/apache/build.sh build/servers
	@servers/nginx/build.sh build/servers

crestdb: lib
	@cmake --build --preset release -j $(JOBS) --target crestdb

compiler: lib
	@$(DEPS) compiler
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target strata_guided

analyzer:
	@$(DEPS) build analyzer
	@echo "== building build/bin/strata-lint-engine"
	@cmake --preset release -DSTRATA_TESTS=OFF >build/configure-release.log || { cat build/configure-release.log; exit 1; }
	@cmake --build --preset release -j $(JOBS) --target strata_lint_engine

tools:
	@$(DEPS) tools

test:
	@$(DEPS) --packages test lint
	@python3 scripts/run_tests.py --jobs $(JOBS)

# Every pair of which `make test` runs a part, and what is built by clang installed.
pairs:
	@$(DEPS) test
	@python3 scripts/run_tests.py --jobs $(JOBS) --only debug --every
	@python3 scripts/run_tests.py --jobs $(JOBS) --only release --every
	@cmake --preset release-clang >/dev/null
	@cmake --build --preset release-clang -j $(JOBS) --target strata_shared strata_static strata_heaps strata_trace strata_replay \
	  strata_simulate strata_pageutil_plugin strata_places strata_servers
	@ctest --preset release-clang -L '^install$$'

test-arm:
	@$(DEPS) arm
	@cmake --preset aarch64 -DSTRATA_TESTS=ON >/dev/null
	@cmake --build --preset aarch64 -j $(JOBS) --target strata_shared cache_rseq_stress_test cache_rseq_control_stress_test
	@STRATA_TARGET=aarch64 STRATA_LIB=build/aarch64/libstrata.so STRATA_BUILD_DIR=build/aarch64 \
	  $(PYTHON) -m pytest -q -p no:cacheprovider tests/targets/test_system.py

test-kernel: crestdb
	@$(DEPS) kernel
	@cmake --preset release -DSTRATA_TESTS=ON >/dev/null
	@cmake --build --preset release -j $(JOBS) --target cache_rseq_stress_test
	@STRATA_LIB=$(LIB) STRATA_BUILD_DIR=build/release \
	  $(PYTHON) -m pytest -q -p no:cacheprovider tests/targets/test_newer_kernel.py

golden:
	@$(DEPS) test
	@scripts/update-golden.sh $(JOBS)

demo: lib
	@$(DEPS) demo
	@$(PYTHON) -m strata.demo $(QUICK_FLAG) --out out/demo --lib $(LIB)

build/bench/visits-server: bench/visits/server.cpp bench/programs/common.h
	@mkdir -p $(@D)
	@$(CXX) -std=c++20 -O2 -g -fno-optimize-sibling-calls -Wall -Wextra -Ibench/programs $< -o $@ -pthread

learn: lib build/bench/visits-server
	@$(DEPS) learn
	@$(PYTHON) -m strata.demo.learn $(QUICK_FLAG) --out out/learn --lib $(LIB)

hades: crestdb
	@$(DEPS) learn
	@$(PYTHON) -m strata.demo.hades $(QUICK_FLAG) --out out/hades --program build/bin/crestdb

bench: lib $(if $(filter hades,$(GROUP)),crestdb) $(if $(filter lint,$(GROUP)),analyzer)
	@$(DEPS) bench
	@$(PYTHON) bench/run.py $(QUICK_FLAG) $(if $(GROUP),--group $(GROUP)) --lib $(LIB)

fuzz:
	@$(DEPS) fuzz
	@scripts/run-fuzz.sh $(FUZZ_SECONDS)

# Objects that move while threads use, change and free them, each checked for its contents.
stress:
	@$(DEPS) test
	@cmake --preset release -DSTRATA_TESTS=ON >/dev/null
	@cmake --build --preset release -j $(JOBS) --target hotness_move_stress_test
	@HOT_STRESS_SECONDS=$(STRESS_SECONDS) build/release/tests/hotness/move_stress_test

mutants:
	@$(DEPS) test
	@python3 scripts/mutants.py --jobs $(JOBS) $(if $(AREA),--area $(AREA)) $(if $(ONLY),--only '$(ONLY)')

format:
	@$(DEPS) lint
	@scripts/lint.sh --fix

lint:
	@$(DEPS) lint
	@scripts/lint.sh

install: lib
	@cmake --install build/release --prefix $(PREFIX)

packages:
	@$(DEPS) packages
	@echo "== making out/packages"
	@$(PYTHON) packages/build.py

test-packages: packages
	@$(PYTHON) -m pytest -q -p no:cacheprovider packages/tests

checked-suites: lib
	@$(DEPS) suites
	@scripts/checked_suites.py

clean:
	rm -rf build out .venv
