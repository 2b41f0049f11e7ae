#!/bin/sh
# Runs kiln on this machine's GPU: run.sh of the folder that `make gpu-bundle` packs (scripts/gpu_bundle.py).
#
#   versions of driver and NVRTC -> device tests, side by side -> examples against the reference -> bench/gpu
#
# The last line is "N passed, N failed, N skipped"; exit status 0 when none failed. Everything has a time limit: tests
# 170 s each, examples 30 s each, the benchmarks what is left of --seconds (default 330). Needs a shell and the tools of
# coreutils, sed and grep; nothing is written outside this folder and a temporary one.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tests="" largest=3 family="" seconds=330 results=$here/results.json what="tests examples bench"

usage() {
  echo "usage: run.sh [--only tests|examples|bench] [--tests PART] [--family PART] [--largest 1|2|3] [--seconds S]"
  echo "              [--results FILE]"
}

while [ $# -gt 0 ]; do
  case $1 in
    --only) what=$2 ;;
    --tests) tests=$2 ;;
    --family) family=$2 ;;
    --largest) largest=$2 ;;
    --seconds) seconds=$2 ;;
    --results) results=$2 ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  [ $# -ge 2 ] || { usage >&2; exit 2; }
  shift 2
done

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
started=$(date +%s)
passed=0 failed=0 skipped=0

# The programs look for what the machine has to offer, not for a daemon.
unset KILN_SOCKET KILN_EMU_LIBRARY
export KILN_TEST_DEVICE=cuda CMOCKA_MESSAGE_OUTPUT=TAP XDG_CACHE_HOME="$scratch"

"$here/bench/gpu" --versions || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# --- device tests ------------------------------------------------------------------------------
run_test() { # program; its output and exit status go to the scratch folder
  timeout 170 "$1" >"$scratch/$(basename "$1").tap" 2>"$scratch/$(basename "$1").log"
  echo $? >"$scratch/$(basename "$1").status"
}

count() { # pattern, file
  grep -c -E "$1" "$2"
}

report_test() { # program's name
  status=$(cat "$scratch/$1.status")
  skips=$(count '^(not )?ok [0-9]+.*# SKIP' "$scratch/$1.tap")
  oks=$(($(count '^ok ' "$scratch/$1.tap") - $(count '^ok .*# SKIP' "$scratch/$1.tap")))
  bads=$(($(count '^not ok ' "$scratch/$1.tap") - $(count '^not ok .*# SKIP' "$scratch/$1.tap")))
  if [ "$status" = 77 ]; then
    oks=0 bads=0 skips=1
  elif [ "$status" != 0 ] && [ "$bads" = 0 ]; then
    bads=1 # it crashed, or its time was over
  fi
  passed=$((passed + oks)) failed=$((failed + bads)) skipped=$((skipped + skips))
  echo "$1: $oks passed, $bads failed, $skips skipped"
  if [ "$bads" != 0 ]; then
    echo "  exit status $status"
    grep -E '^not ok ' "$scratch/$1.tap" | grep -v '# SKIP' | sed 's/^/  /'
    grep -v '^ok ' "$scratch/$1.tap" | tail -n 20 | sed 's/^/  /'
    tail -n 20 "$scratch/$1.log" | sed 's/^/  /'
  fi
}

run_tests() {
  programs=$(ls "$here"/tests/test_*"$tests"* 2>/dev/null)
  for program in $programs; do run_test "$program" & done
  wait
  for program in $programs; do report_test "$(basename "$program")"; done
}

# --- examples: from graph to checked results, at 64 tokens ---------------------------------------
run_examples() {
  for graph in "$here"/examples/*.kiln; do
    name=$(basename "$graph")
    case $name in decoder_layer.kiln) continue ;; esac # at this width the reference takes minutes
    if timeout 30 "$here/bin/kiln" run --local --device cuda --symbol T=64 --check "$graph" \
      >"$scratch/example" 2>&1; then
      passed=$((passed + 1))
      echo "$name: agrees with the reference"
    else
      failed=$((failed + 1))
      echo "$name: failed"
      tail -n 5 "$scratch/example" | sed 's/^/  /'
    fi
  done
}

# --- speed ---------------------------------------------------------------------------------------
run_bench() {
  rm -f "$results"
  left=$((seconds - ($(date +%s) - started)))
  if [ "$left" -lt 10 ]; then left=10; fi
  if timeout $((left + 60)) "$here/bench/gpu" --largest "$largest" --seconds "$left" --json "$results" \
    ${family:+"$family"} | sed 1,2d; then
    [ -s "$results" ] && passed=$((passed + 1)) && echo "figures: $results" && return
  fi
  failed=$((failed + 1))
  echo "bench/gpu failed"
}

case " $what " in *" tests "*) run_tests ;; esac
case " $what " in *" examples "*) run_examples ;; esac
case " $what " in *" bench "*) run_bench ;; esac
echo "$(($(date +%s) - started)) s"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
