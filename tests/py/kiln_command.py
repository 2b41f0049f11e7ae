"""Runs the command `kiln` for tests: what it printed, what it returned, and arrays in and out."""
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(os.environ.get("KILN_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("KILN_BUILD_DIR", ROOT / "build"))
EMULATED = ("--local", "--device", "emulated")


def kiln(*arguments, code=0, text=None, **environment):
    """Runs kiln; `text` is its standard input. Fails unless it exits with `code`."""
    done = subprocess.run([BUILD / "bin/kiln", *map(str, arguments)], capture_output=True, text=True,
                          input=text, timeout=250, check=False, env={**os.environ, **environment})
    if done.returncode != code:
        raise AssertionError(f"kiln {' '.join(map(str, arguments))}: exit code {done.returncode}, not {code}\n"
                             f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def statistics(path, *arguments, code=0):
    """What `kiln opt --stats json` says of a graph."""
    return json.loads(kiln("opt", path, "--stats", "json", *arguments, code=code).stdout)


def evaluate(command, path, inputs, *arguments, **environment):
    """The results by name of `kiln run` or `kiln reference` (a tuple) on these inputs."""
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for name, array in inputs.items():
            np.save(f"{folder}/in.{name}.npy", array)
            given += ["--input", f"{name}={folder}/in.{name}.npy"]
        kiln(*command, path, *given, "--output-dir", f"{folder}/out", *arguments, **environment)
        return {file.stem: np.load(file) for file in Path(folder, "out").glob("*.npy")}


def run_local(path, inputs, *arguments):
    return evaluate(("run", *EMULATED), path, inputs, *arguments)
