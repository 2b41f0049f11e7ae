# The commands of kiln. CMake builds; this names what people run.
.PHONY: all setup build demo check bench gpu-bundle format clean

all: build

# Installs what is missing and finds NVRTC.
setup:
	@scripts/setup.sh

# Programs in build/bin/, libraries in build/lib/.
build: setup
	@cmake --preset release >build/configure.log || { cat build/configure.log; exit 1; }
	@cmake --build --preset release

# A real graph from text to result: what was rewritten, what it cost, what the caches saved.
demo: build
	@scripts/demo.py

# Everything that must hold, with gcc and with clang's sanitizers; see scripts/check.py.
check: setup
	@scripts/check.py

bench: build
	@scripts/bench.sh

# Device tests and benchmarks with their libraries, to run on a machine with a GPU: docs/gpu.md.
gpu-bundle: build
	@scripts/gpu_bundle.py

format:
	@scripts/check_format.sh --fix

clean:
	rm -rf build
