# The front door: everything is built by Meson and Ninja, into build/. `make help` lists the targets.
BUILD  ?= build
PREFIX ?= /usr/local
MESON_OPTIONS ?=
SOAK_SEEDS ?= 1000000

.PHONY: all help test transcribe demo demo-transcribe bench check soak docs install clean setup

all: $(BUILD)/build.ninja ## build everything into build/ (the default)
	@ninja -C $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo 'BUILD=$(BUILD)  PREFIX=$(PREFIX)  MESON_OPTIONS="$(MESON_OPTIONS)" (used when $(BUILD)/ is made)'

setup:
	@tools/setup.sh build $(BUILD)

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_OPTIONS)

transcribe: $(BUILD)/build.ninja ## build the transcription worker too, with whisper.cpp (WHISPER=cpu|cuda; else for what is here)
	@tools/transcriber.sh $(BUILD)
	@ninja -C $(BUILD)

test: all ## run every test; ends with the total (installs a browser for the web page's; GD_BROWSER=no: without)
	@tools/setup.sh browser
	@tools/transcriber.sh --try $(BUILD)
	@tools/test.sh $(BUILD)

demo: all ## run a real dispatch on simulated devices (no GPU needed)
	@$(BUILD)/examples/example_demo
	@tools/demo.sh $(BUILD)

demo-transcribe: $(BUILD)/build.ninja ## speak a folder of clips, transcribe it on simulated GPUs, compare
	@tools/transcriber.sh --any $(BUILD)
	@ninja -C $(BUILD)
	@tools/setup.sh speech
	@tools/demo_transcribe.sh $(BUILD)

bench: all ## measure against bare rings and Python's pools; prints a table
	@python3 bench/run.py $(BUILD)

check: ## format, lint, sanitizers, headers, fuzz corpora
	@tools/setup.sh check
	@tools/check.sh

soak: all ## the simulator, system, crash and chaos tests, for much longer
	@$(BUILD)/tests/sim_sim --seeds $(SOAK_SEEDS)
	@tools/test.sh $(BUILD) --setup soak --suite system --suite crash --suite chaos

docs: ## build the documentation into build/site (gets MkDocs from PyPI, once)
	@tools/docs.sh $(BUILD)

install: all ## install under PREFIX (honours DESTDIR)
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove build folders
	rm -rf $(BUILD) build-asan build-tsan build-fuzz build-check build-ci
