# The front door: everything is built by Meson and Ninja, into build/. `make help` lists the targets.
BUILD  ?= build
PREFIX ?= /usr/local
MESON_OPTIONS ?=
SOAK_SEEDS ?= 1000000

.PHONY: all help test transcribe demo demo-transcribe bench check soak docs install clean setup

all: $(BUILD)/build.ninja ## build everything into build/ (the default)
	@ninja -C $(BUILD)

help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo 'BUILD=$(BUILD)  PREFIX=$(PREFIX)  MESON_OPTIONS="$(MESON_OPTIONS)" (used when $(BUILD)/ is made)'

setup:
	@tools/setup.sh build $(BUILD)

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_OPTIONS)

transcribe: $(BUILD)/build.ninja ## also build the transcription worker, with whisper.cpp (WHISPER=cpu or cuda; default: what this machine has)
	@tools/transcriber.sh $(BUILD)
	@ninja -C $(BUILD)

test: all ## run every test and print the total (installs a browser to test the web page; not with GD_BROWSER=no)
	@tools/setup.sh browser
	@tools/transcriber.sh --try $(BUILD)
	@tools/test.sh $(BUILD)

demo: all ## run a real dispatch on simulated devices (no GPU needed)
	@$(BUILD)/examples/example_demo
	@tools/demo.sh $(BUILD)

demo-transcribe: $(BUILD)/build.ninja ## make a few spoken clips, transcribe them on simulated GPUs, compare the text
	@tools/transcriber.sh --any $(BUILD)
	@ninja -C $(BUILD)
	@tools/setup.sh speech
	@tools/demo_transcribe.sh $(BUILD)

bench: all ## compare with bare rings and Python's pools, and print a table
	@python3 bench/run.py $(BUILD)

check: ## check format, lint, sanitizers, headers and fuzz corpora
	@tools/setup.sh check
	@tools/check.sh

soak: all ## run the simulator, system, crash and chaos tests for much longer
	@$(BUILD)/tests/sim_sim --seeds $(SOAK_SEEDS)
	@tools/test.sh $(BUILD) --setup soak --suite system --suite crash --suite chaos

docs: ## build the documentation into build/site (gets MkDocs from PyPI, once)
	@tools/docs.sh $(BUILD)

install: all ## install under PREFIX (honours DESTDIR)
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove build directories
	rm -rf $(BUILD) build-asan build-tsan build-fuzz build-check build-ci
