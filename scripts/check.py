#!/usr/bin/python3
"""Builds and checks everything; the last line is "N passed, N failed, N skipped".

Stages: release (gcc: unit tests, python tests), static (layers, globals, format, README), asan
(clang, address and undefined sanitizers: the same tests), tsan (tests labelled so), fuzz (each
fuzzer from its committed corpus), gpu (release's device tests against CUDA; each program is one
skip where libcuda.so.1 or a GPU is missing). A stage whose build fails counts one failure and is
left out.

A test is an executable that prints TAP: cmocka programs from tests/unit/test_*.c, and
tests/py/test_*.py under scripts/unittest_tap.py. A line "Labels: ..." in the opening comment of
the source says more: `tsan` runs it under the thread sanitizer too, `release-only` keeps a heavy
test out of asan, `alone` lets nothing run beside it, `device` means that it runs kernels on the
device that KILN_TEST_DEVICE names (tests/support/test_device.h). Fuzzers and static checks count one each.

Usage: check.py [--stages release,static] [--fuzz-seconds 30] [--jobs N] [PART-OF-A-NAME...]
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"  # the distribution's, which has its numpy and msgpack
BUILD_DIRS = {"release": ROOT / "build", "asan": ROOT / "build/asan",
              "tsan": ROOT / "build/tsan", "fuzz": ROOT / "build/fuzz", "gpu": ROOT / "build"}
PRESETS = {"gpu": "release"}  # of stages that are no preset themselves
STAGES = ("release", "static", "asan", "tsan", "fuzz", "gpu")
SKIP_EXIT_CODE = 77
RUNNING_GROUPS = set()  # of the jobs that run now
ENVIRONMENT = {
    "CMOCKA_MESSAGE_OUTPUT": "TAP",
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclass
class Job:
    """One process to run. speaks_tap: it reports several tests, else it is one."""
    name: str
    argv: list
    timeout_s: int = 300
    speaks_tap: bool = False
    alone: bool = False
    environment: dict = field(default_factory=dict)


@dataclass
class Result:
    """One test's outcome: passed, failed or skipped (detail: why)."""
    name: str
    outcome: str
    detail: str = ""


def labels_of(source):
    found = re.search(r"Labels:(.*)", source.read_text()[:3000])
    return set(re.findall(r"[\w-]+", found.group(1))) if found else set()


# --- running one job ---------------------------------------------------------------------------

def run(job):
    """Runs a job in a process group and folders of its own; returns (results, output)."""
    with tempfile.TemporaryDirectory(prefix="kiln-check-") as scratch:
        out_path, err_path = Path(scratch, "stdout"), Path(scratch, "stderr")
        environment = {**inherited_environment(), **ENVIRONMENT, "XDG_CACHE_HOME": f"{scratch}/cache",
                       "XDG_RUNTIME_DIR": scratch, **job.environment}
        with open(out_path, "wb") as out, open(err_path, "wb") as err:
            process = subprocess.Popen([str(arg) for arg in job.argv], cwd=ROOT, stdout=out,
                                       stderr=err, stdin=subprocess.DEVNULL, env=environment,
                                       start_new_session=True)
            RUNNING_GROUPS.add(process.pid)
            exit_code = wait_and_end_group(process, job.timeout_s)
            RUNNING_GROUPS.discard(process.pid)
        stdout = out_path.read_text(errors="replace")
        stderr = err_path.read_text(errors="replace")
    return judge(job, exit_code, stdout), stdout + stderr


def inherited_environment():
    """Ours, less what would point tests at a daemon that they did not start."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("KILN_") or name == "KILN_NVRTC"}


def wait_and_end_group(process, timeout_s):
    """The exit code, or None past the time limit; what the process left running ends too."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_group(process.pid)
        process.wait()


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def on_interrupt(number, _frame):
    """Jobs lead groups of their own, so that a terminal's interrupt does not reach them."""
    for group in list(RUNNING_GROUPS):
        end_group(group)
    os._exit(128 + number)


def judge(job, exit_code, stdout):
    how_ended = (f"still running after {job.timeout_s} s" if exit_code is None
                 else f"exit code {exit_code}")
    if exit_code == SKIP_EXIT_CODE:
        return [Result(job.name, "skipped", last_line(stdout))]
    if job.speaks_tap:
        return judge_tap(job, exit_code, how_ended, stdout)
    return [Result(job.name, "passed" if exit_code == 0 else "failed", how_ended)]


def judge_tap(job, exit_code, how_ended, stdout):
    """One result per TAP line, and one more when the program as a whole went wrong."""
    results, planned, before = [], 0, ""
    for line in stdout.splitlines():
        if plan := re.match(r"1\.\.(\d+)", line):
            planned += int(plan.group(1))
        elif test := re.match(r"(not )?ok \d+\W*(.*)", line):
            results.append(tap_result(job, test.group(1), test.group(2), before))
        before = line
    failed = any(result.outcome == "failed" for result in results)
    if exit_code != 0 and not failed:
        results.append(Result(job.name, "failed", how_ended))
    elif len(results) < max(planned, 1):
        results.append(Result(job.name, "failed",
                              f"{how_ended} after {len(results)} of {planned} tests"))
    return results


def tap_result(job, negated, description, line_before):
    """cmocka writes a skip as "not ok 3 # SKIP name", its reason being what the test printed."""
    name, skip, reason = description.partition("SKIP")
    if skip:
        name = name.rstrip(" #")
        name, reason = (name, reason.strip()) if name else (reason.strip(), line_before)
        return Result(f"{job.name}: {name}", "skipped", reason)
    return Result(f"{job.name}: {name}", "failed" if negated else "passed")


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


# --- what to run -------------------------------------------------------------------------------

def build(stage, jobs):
    """Configures and builds a stage's preset; returns its one result and the output."""
    preset = PRESETS.get(stage, stage)
    command = f"cmake --preset {preset} && cmake --build --preset {preset} -j {jobs}"
    if stage == "release":
        command += " && cmake --build --preset release --target link_checks"
    return run(Job(f"{stage}: builds", ["sh", "-c", command], timeout_s=1800))


def test_jobs(stage):
    """The unit and python tests of a stage."""
    build_dir = BUILD_DIRS[stage]
    environment = {"KILN_BUILD_DIR": str(build_dir), "KILN_SOURCE_DIR": str(ROOT)}
    if stage == "gpu":
        environment["KILN_TEST_DEVICE"] = "cuda"
    for source in sorted([*(ROOT / "tests/unit").glob("test_*.c"), *(ROOT / "tests/py").glob("test_*.py")]):
        labels = labels_of(source)
        argv = ([build_dir / "tests" / source.stem] if source.suffix == ".c" else
                [PYTHON, ROOT / "scripts/unittest_tap.py", source])
        if (stage == "tsan" and "tsan" not in labels) or \
           (stage == "gpu" and "device" not in labels) or \
           (stage == "asan" and "release-only" in labels):
            continue
        # Unit tests choose checkers themselves; these run whole programs (about a tenth slower with all).
        checks = {"KILN_EMU_CHECKS": "all"} if source.suffix == ".py" else {}
        yield Job(f"{stage}: {source.stem}", argv, timeout_s=600,
                  speaks_tap=True, alone="alone" in labels, environment={**environment, **checks})


def static_jobs():
    for script, *arguments in (["check_layers.py"], ["check_globals.sh", BUILD_DIRS["release"]],
                               ["check_format.sh"], ["check_readme.py"]):
        yield Job(f"static: {script}", [ROOT / "scripts" / script, *arguments])


def fuzz_jobs(seconds):
    for source in sorted((ROOT / "tests/fuzz").glob("fuzz_*.c")):
        corpus = ROOT / "tests/corpus" / source.stem.removeprefix("fuzz_")
        found = BUILD_DIRS["fuzz"] / "found" / source.stem
        found.mkdir(parents=True, exist_ok=True)
        yield Job(f"fuzz: {source.stem}",
                  [BUILD_DIRS["fuzz"] / "fuzz" / source.stem, f"-max_total_time={seconds}",
                   "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={found}/", found, corpus],
                  timeout_s=seconds + 120)


def jobs_of(stage, options):
    if stage == "static":
        return static_jobs()
    return fuzz_jobs(options.fuzz_seconds) if stage == "fuzz" else test_jobs(stage)


# --- the run -----------------------------------------------------------------------------------

class Report:
    """Progress as it goes, the output of failures at the end, the counts last."""

    def __init__(self):
        self.results = []
        self.failures = []  # (heading, output)

    def add(self, name, results, output, seconds):
        self.results += results
        failed = [result for result in results if result.outcome == "failed"]
        if failed:
            what = "\n".join(f"  {result.name} {result.detail}" for result in failed)
            self.failures.append((f"{name} failed:\n{what}", output))
        mark = "FAIL" if failed else "ok"
        print(f"{mark:4} {name} ({counts(results)}) {seconds:.1f} s", flush=True)

    def finish(self):
        for result in self.results:
            if result.outcome == "skipped":
                print(f"skipped {result.name}: {result.detail}")
        for heading, output in self.failures:
            print(f"\n{'=' * 80}\n{heading}\n{'-' * 80}\n{output}")
        print(counts(self.results), flush=True)
        return 1 if self.failures or not self.results else 0


def counts(results):
    outcomes = [result.outcome for result in results]
    return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))


def timed(function, *arguments):
    start = time.monotonic()
    return *function(*arguments), time.monotonic() - start


def run_stage(stage, options, report):
    if stage in BUILD_DIRS:
        results, output, seconds = timed(build, stage, options.jobs)
        report.add(f"{stage}: builds", results, output, seconds)
        if results[0].outcome == "failed":
            return
    jobs = [job for job in jobs_of(stage, options)
            if not options.names or any(name in job.name for name in options.names)]
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(timed, run, job): job for job in jobs if not job.alone}
        for done in as_completed(running):
            report.add(running[done].name, *done.result())
    for job in jobs:
        if job.alone:
            report.add(job.name, *timed(run, job))


def main():
    parser = argparse.ArgumentParser(description="Builds and checks everything.")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--fuzz-seconds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", help="run only what has one of these in its name")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, on_interrupt)
    signal.signal(signal.SIGTERM, on_interrupt)
    report = Report()
    for stage in options.stages.split(","):
        run_stage(stage, options, report)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()
