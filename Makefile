# SPDX-License-Identifier: Apache-2.0 OR MIT
# Every command installs what is missing first; see README.md for what each prints and takes.

STEADY = target/release/steady
OUT ?= out

.DELETE_ON_ERROR:
.PHONY: evaluate test lint bench clean setup build help

help:
	@echo 'make evaluate   race two-vms on both engines and print the table'
	@echo 'make test       every test, the lab among them'
	@echo 'make lint       formatting, clippy, shell and kernel style'
	@echo 'make bench      speed of the lab, the simulator and the trace readers against their promises'
	@echo 'make clean      remove what was built here (not the cache in ~/.cache/steady)'

setup:
	@setup/install

build: setup
	@cargo build --release --locked --quiet -p steady

evaluate: build
	@$(STEADY) run scenarios/two-vms.toml --engine qemu --engine bochs -o $(OUT)

test: build
	@$(STEADY) build
	@cargo test --workspace --locked

lint: setup
	@lint/run

bench: build
	@bench/lab
	@bench/coherence
	@bench/tracefile

clean:
	rm -rf target out
