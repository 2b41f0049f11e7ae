#!/usr/bin/python3
"""Shows kiln's main job on a real graph: a rotary embedding of model width goes to a daemon and comes back as results.

Starts a daemon of its own with an empty cache, runs the graph cold, again (memory), and after a restart (disk), checks the
results against the reference evaluator, and counts bytes on the emulated device against the fewest that must move.

Usage: demo.py [FILE [NAME=VALUE...]]     default: examples/mistral_rope.kiln T=64
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("KILN_BUILD_DIR", ROOT / "build")) / "bin"
BYTES = {"bool": 1, "u8": 1, "i8": 1, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}


class Daemon:
    """A daemon with its socket and cache in one folder."""

    def __init__(self, folder):
        self.environment = {**os.environ, "KILN_SOCKET": f"{folder}/kiln.sock"}
        self.command = [BIN / "kilnd", "--listen", f"unix:{folder}/kiln.sock", "--cache-dir", f"{folder}/cache",
                        "--log-level", "warning"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        for _ in range(100):
            health = subprocess.run([BIN / "kiln", "health", "--json"], env=self.environment, capture_output=True)
            if health.returncode == 0 and json.loads(health.stdout)["ready"]:
                return self
            time.sleep(0.1)
        sys.exit("demo: the daemon did not get ready")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def run(self, file, symbols, *options):
        """One `kiln run`: its report."""
        arguments = [option for symbol in symbols for option in ("--symbol", symbol)]
        return kiln("run", file, *arguments, *options, "--json", environment=self.environment)


def kiln(*arguments, environment=None):
    done = subprocess.run([BIN / "kiln", *arguments], env=environment, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"demo: kiln {' '.join(map(str, arguments))} exited with {done.returncode}")
    return json.loads(done.stdout)


def fewest_bytes(file, report):
    """Each input read once, each output written once. The inputs' types stand in the graph's first line."""
    header = re.search(r"graph [^(]*\(([^)]*)\)", Path(file).read_text()).group(1)
    total = 0
    for dtype, shape in re.findall(r":\s*(\w+)\[([^\]]*)\]", header):
        sizes = [eval(size, {}, report["symbols"]) for size in shape.split(",") if size.strip()]
        total += BYTES[dtype] * prod(sizes)
    return total + sum(BYTES[output["dtype"]] * prod(output["shape"]) for output in report["outputs"])


def milliseconds(report):
    timings = report["timings"]
    return (f"plan {timings['plan_ns'] / 1e6:6.1f} ms   kernels {timings['compile_ns'] / 1e6:7.1f} ms   "
            f"whole command {report['elapsed_ms']:7.1f} ms")


def compile_and_time(daemon, file, symbols):
    start = time.monotonic()
    report = daemon.run(file, symbols)
    report["elapsed_ms"] = (time.monotonic() - start) * 1e3
    return report


def main():
    file = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "examples/mistral_rope.kiln")
    symbols = sys.argv[2:] or ([] if len(sys.argv) > 1 else ["T=64"])
    shown = os.path.relpath(file, ROOT)
    print(f"\n== The graph: {shown} {' '.join(symbols)}")
    fused, plain = (kiln("opt", file, "--stats", "json", *more) for more in ([], ["--passes", "", "--unfused"]))
    print("passes    " + ", ".join(f"{p['name']} {p['applied']}" for p in fused["passes"] if p["applied"]))
    print(f"rewritten {fused['repetitions']} repeating concatenation(s)")
    print(f"launches  {plain['launches']} node by node, {fused['launches']} after rewriting and grouping")
    with tempfile.TemporaryDirectory(prefix="kiln-demo-") as folder:
        print("\n== Three times through a daemon")
        with Daemon(folder) as daemon:
            print(f"cold      {milliseconds(compile_and_time(daemon, file, symbols))}")
            print(f"memory    {milliseconds(compile_and_time(daemon, file, symbols))}")
        with Daemon(folder) as daemon:
            report = compile_and_time(daemon, file, symbols)
            print(f"{report['cache']:9} {milliseconds(report)}   (the daemon was restarted)")
            report = daemon.run(file, symbols, "--check", "--counters")
    print("\n== Is it right, and what did it move?")
    check = report["check"]
    print(f"check     {check['elements']} elements against the reference evaluator: {check['wrong']} wrong, "
          f"{check['undecided']} undecided, worst error {check['worst_ratio']:.3g} of its bound")
    moved = sum(launch["bytes_moved"] for launch in report["counters"]["launches"])
    fewest = fewest_bytes(file, report)
    print(f"bytes     {moved} moved in {report['launches']} launches, {fewest} at least: {moved / fewest:.2f} times the fewest")


if __name__ == "__main__":
    main()
