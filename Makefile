# Each target does all the set-up it needs. PRESET=dev|asan|tsan builds another way.
PRESET ?= release
PREFIX ?= /usr/local
CONFIGURE = cmake --preset $(PRESET) > build/configure.log || { cat build/configure.log; exit 1; }

.PHONY: program build test test-long test-gpu demo check bench install package clean help
help:            ## show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 12

program: bootstrap-program ## build the program alone: build/chorus
	@$(CONFIGURE)
	cmake --build --preset $(PRESET) --target chorus

build: bootstrap ## build everything, tests included
	@$(CONFIGURE)
	cmake --build --preset $(PRESET)

test: build check ## build, check the sources, run all tests
	tools/make_reference --check
	ctest --preset $(PRESET)

test-long: build ## the long versions of tests: every dropout, hostile networks, kills, constant time
	tools/test_long $(PRESET)

test-gpu: ## on a machine with a GPU: build there, and test everything a GPU can break
	tools/test_gpu

demo: program ## build the program, then a tour: data, partitions, a model
	tools/demo

bench: build ## Chorus beside its peers, in one run (installs Python packages into build/venv)
	bench/run

install: program ## copy program, manual pages, completion and the small model to PREFIX (default /usr/local)
	tools/install "$(PREFIX)" "$(DESTDIR)"

package: program ## a Debian package with systemd units for a server and a client
	tools/package

check: bootstrap ## formatting, layers, file lengths, headers
	tools/check

clean: ## remove everything that was built
	rm -rf build

.PHONY: bootstrap bootstrap-program
bootstrap:
	@mkdir -p build
	@tools/bootstrap

bootstrap-program:
	@mkdir -p build
	@tools/bootstrap program
