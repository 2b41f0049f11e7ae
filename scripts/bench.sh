#!/bin/sh
# Runs every benchmark, one after the other; each prints ratios of what it measured in this run. One that ends with 77
# has said what this machine lacks for it.
# Usage: bench.sh [NAME...]
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(cd bench && ls *.c *.py 2>&- | sed 's/\.[a-z]*$//')
for name; do
  echo "== $name"
  if [ -f "bench/$name.py" ]; then KILN_BUILD_DIR=build /usr/bin/python3 "bench/$name.py"
  else "build/bench/$name" || [ $? = 77 ]; fi
done
