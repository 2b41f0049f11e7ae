#!/bin/sh
# Makes a bare Debian machine ready to build and check kiln: installs the packages that are
# missing, then finds NVRTC (scripts/find_nvrtc.py). Does nothing where nothing is missing.
# Run by every `make` target that builds. Not root: uses sudo.
set -eu
cd "$(dirname "$0")/.."

# Everything that is called or included by name, also where another of these brings it today.
build="gcc libc6-dev clang libclang-rt-dev clang-format cmake ninja-build make pkg-config binutils git"
libraries="libuv1-dev libmsgpack-dev libssl-dev uthash-dev libjansson-dev libcmocka-dev"
tests="python3 python3-venv python3-numpy python3-msgpack neovim procps"

missing=""
for package in $build $libraries $tests; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>&1)" = installed ] ||
    missing="$missing $package"
done

if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  as_root=""
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -q
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    $missing
fi

exec /usr/bin/python3 scripts/find_nvrtc.py
