# A thin front for CMake and Ninja: the two commands are `make train` and
# `make test`. Missing Debian packages are installed on the way.
#   CC=clang        another compiler      PREFIX=/usr/local  for install, with
#                                         DESTDIR=...        in front of it
#   TESTS=pattern   some of the tests     ARGS='--set k=v'   for train
#   CASES='asp zb'  some of bench         PYTHON=...         one that has torch
PREFIX ?= /usr/local
TESTS ?= .
export CC

# What `make train` builds: the program, and plugins if ARGS names one.
PARTS = $(if $(strip $(foreach name,cuda mpi nccl dashboard,\
	$(findstring $(name),$(ARGS)))),plugins,program)
RELEASE = -DCMAKE_BUILD_TYPE=Release
CHECKED = -DCMAKE_BUILD_TYPE=RelWithDebInfo
CTEST = ctest --output-on-failure --no-tests=error -j $(shell nproc) \
	-R '$(TESTS)'

.PHONY: all train test test-full fuzz bench debug asan tsan lint format mutate \
	dist dist-source deb install clean help
.DEFAULT_GOAL := all

all: ## build/vpipe, its plugins and the tests, optimised
	@scripts/build build $(RELEASE)

train: ## build build/vpipe alone, train a small BERT for about a minute
	@scripts/build build $(PARTS) $(RELEASE)
	build/vpipe train configs/bert_tiny.yml --require-loss-below unigram $(ARGS)

test: ## all tests, in the Release build and under ASan+UBSan
	@scripts/test '$(TESTS)'

test-full: ## every fault at every call, Slurm, two hosts; an hour
	@scripts/setup full || echo 'test-full: goes on, and skips some tests'
	@scripts/build build $(RELEASE)
	@VP_FULL=1 $(CTEST) -C full --test-dir build; status=$$?; \
	grep '^SKIPPED: ' build/Testing/Temporary/LastTest.log; exit $$status

fuzz: ## parsers against random bytes, SECONDS=600 each; needs clang
	@scripts/fuzz $(SECONDS)

bench: ## measure; a file per case goes to bench/results
	@scripts/bench $(CASES)

debug: ## all tests without optimisation
	@scripts/build build/debug -DCMAKE_BUILD_TYPE=Debug
	@$(CTEST) --test-dir build/debug

asan: ## all tests under AddressSanitizer and UBSan
	@scripts/build build/asan $(CHECKED) -DVP_SANITIZE=address
	@$(CTEST) --test-dir build/asan

tsan: ## all tests under ThreadSanitizer
	@scripts/build build/tsan $(CHECKED) -DVP_SANITIZE=thread
	@$(CTEST) --test-dir build/tsan

lint: ## clang-format and clang-tidy find nothing to say
	@scripts/lint

format: ## let clang-format rewrite the sources
	@scripts/lint format

mutate: ## break the code on purpose; the tests must notice
	@scripts/mutate

dist: ## a folder that runs elsewhere, GPU tests included, compressed
	@scripts/dist

dist-source: ## build/vpipe-VERSION.tar.xz, its changelog and checksums
	@scripts/dist-source

deb: ## Debian packages in build/deb, checked by lintian
	@scripts/deb

install: ## program, plugins, configs, docs, man pages to DESTDIR/PREFIX
	@scripts/setup install || echo 'install: goes on without manual pages'
	@scripts/build build plugins $(RELEASE)
	@cmake -DCMAKE_INSTALL_PREFIX='$(PREFIX)' build >/dev/null
	@ninja -C build --quiet plugins
	@DESTDIR='$(DESTDIR)' cmake --install build

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)
