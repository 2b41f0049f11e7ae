#!/bin/sh
# Checks that every source is as clang-format leaves it (one test of scripts/check.py); with
# --fix, formats them instead. Tables (.def) are laid out by hand.
set -eu
cd "$(dirname "$0")/.."
mode="--dry-run -Werror --ferror-limit=1"
[ "${1:-}" = --fix ] && mode="-i"
git ls-files -z '*.c' '*.h' | xargs -0 -r clang-format $mode
