# Each target does all the set-up it needs. PRESET=dev|asan|tsan builds another way.
PRESET ?= release

.PHONY: build test test-gpu demo check bench package clean help
help:            ## show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 12

build: bootstrap ## build everything; the program is build/chorus
	@cmake --preset $(PRESET) > build/configure.log || { cat build/configure.log; exit 1; }
	cmake --build --preset $(PRESET)

test: build check ## build, check the sources, run all tests
	tools/make_reference --check
	ctest --preset $(PRESET)

test-gpu: ## on a machine with a GPU: build there, and test everything a GPU can break
	tools/test_gpu

demo: build ## build, then a tour: data, partitions, a model
	tools/demo

bench: build ## Chorus beside its peers, in one run (installs Python packages into build/venv)
	bench/run

package: build ## a Debian package with systemd units for a server and a client
	tools/package

check: bootstrap ## formatting, layers, file lengths, headers
	tools/check

clean: ## remove everything that was built
	rm -rf build

.PHONY: bootstrap
bootstrap:
	@mkdir -p build
	@tools/bootstrap
