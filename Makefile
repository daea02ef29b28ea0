# SPDX-License-Identifier: Apache-2.0 OR MIT
# Every command installs what it lacks first (setup/install says what, and asks on a terminal); see
# README.md for what each prints and takes.

OUT ?= out
TRY ?= /var/tmp/steady-try

.DELETE_ON_ERROR:
.PHONY: evaluate test catch lint bench dist dist-try clean setup build help

help:
	@echo 'make build      target/release/steady'
	@echo 'make evaluate   diagnose, simulate and race; ends with a scoreboard of all systems'
	@echo 'make test       lint, then every test, the lab among them'
	@echo 'make catch      every remedy on kernels that check locks, RCU and memory, and on PREEMPT_RT'
	@echo 'make lint       formatting, clippy, words, spelling, licences, lengths, links, dead files'
	@echo 'make bench      speed of the lab, the simulator and the trace readers against their promises'
	@echo 'make dist       packages into dist: .deb, .rpm, tarball, checksums, bill of materials'
	@echo 'make dist-try   installs, uses and purges them in bare Debians in $(TRY), as root'
	@echo 'make clean      remove what was built here (not the cache in ~/.cache/steady)'

# make itself and kernels' builds take a blank for the end of a name.
ifneq ($(words $(CURDIR)),1)
$(error $(CURDIR): the path of this clone has a blank, which make cannot take; move the clone)
endif

# What `make setup` installs for: diagnose, lab or tests.
LEVEL ?= tests

setup:
	@setup/install $(LEVEL)

build:
	@setup/install diagnose
	@setup/tools

evaluate:
	@setup/install lab
	@OUT='$(OUT)' setup/evaluate

# Lint comes first: it ends soonest.
test: setup
	@lint/run
	@setup/test

catch: setup
	@setup/tools
	@OUT='$(OUT)' setup/catch

lint: setup
	@lint/run

bench: setup
	@setup/tools
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
