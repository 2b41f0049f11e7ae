#!/bin/sh
# Checks that our libraries hold no writable data (one test of scripts/check.py): all state
# hangs off something passed in. Tables of constants in .data.rel.ro are read-only once loaded.
# What tests share (tests/support) is none of them: a test program is one fixture on one thread.
# Usage: check_globals.sh BUILD_FOLDER
set -eu

# "archive:symbol" of globals that cannot be otherwise, each with its reason:
# the emulator's driver: cuInit and its kin take no handle, so a process has one driver.
allowed='^libkiln_emulator\.a:(emu_driver\.)?driver(\.[0-9]+)?$'

libraries=$(find "$1/lib/static" -name 'libkiln_*.a' ! -name libkiln_test_support.a)
found=$(objdump -t $libraries | awk '
  /^In archive/ { archive = $3; sub(/.*\//, "", archive); sub(/:$/, "", archive) }
  / O (\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && !/ \.data\.rel\.ro/ { print archive ":" $NF }' |
  grep -v -E "$allowed" || true)

if [ -n "$found" ]; then
  echo "writable globals:"
  echo "$found"
  exit 1
fi
