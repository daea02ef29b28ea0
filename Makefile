# SPDX-License-Identifier: Apache-2.0 OR MIT
# Every command installs what is missing first; see README.md for what each prints and takes.

STEADY = target/release/steady
OUT ?= out
TRY ?= /var/tmp/steady-try

.DELETE_ON_ERROR:
.PHONY: evaluate test catch lint bench dist dist-try clean setup build help

help:
	@echo 'make evaluate   diagnose, simulate and race; ends with a scoreboard of all systems'
	@echo 'make test       lint, then every test, the lab among them'
	@echo 'make catch      every remedy on kernels that check locks, RCU and memory, and on PREEMPT_RT'
	@echo 'make lint       formatting, clippy, words, spelling, licences, lengths, links, dead files'
	@echo 'make bench      speed of the lab, the simulator and the trace readers against their promises'
	@echo 'make dist       packages into dist: .deb, .rpm, tarball, checksums, bill of materials'
	@echo 'make dist-try   installs, uses and purges them in bare Debians in $(TRY), as root'
	@echo 'make clean      remove what was built here (not the cache in ~/.cache/steady)'

setup:
	@setup/install

build: setup
	@setup/tools

evaluate: setup
	@OUT='$(OUT)' setup/evaluate

# Lint comes first: it ends soonest. What is compiled once and whole needs no parts to be compiled
# again from.
test: build
	@lint/run
	@$(STEADY) build
	@CARGO_INCREMENTAL=0 cargo test --workspace --locked

catch: build
	@OUT='$(OUT)' setup/catch

lint: setup
	@lint/run

bench: build
	@bench/lab
	@bench/coherence
	@bench/memtrace/run
	@bench/tracefile

dist: setup
	@packaging/build dist

dist-try: dist
	@packaging/try dist bullseye $(TRY)
	@packaging/try dist bookworm $(TRY) lab
	@packaging/try dist trixie $(TRY) lab

clean:
	rm -rf target out dist
