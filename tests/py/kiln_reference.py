"""Graphs in, arrays out: the reference evaluator as the NumPy tests use it, and dtypes that NumPy lacks.

bf16 arrays are uint16 bits; `widen` gives the numbers of any dtype, `round_as_node` and `round_as_cast`
round as docs/numerics.md says, by code that shares nothing with the evaluator's.
"""
import os
import pathlib
import subprocess
import tempfile

import numpy as np

BUILD_DIR = pathlib.Path(os.environ.get("KILN_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build"))
STORAGE = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i32": np.int32, "i64": np.int64,
           "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}
FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["u8", "i8", "i32", "i64"]
ANY_FORM = 5e-324  # the bound that frees the sign of a zero and the payload of a NaN


def bf16_bits(values):
    """f32 to bf16, round to nearest even, by arithmetic on whole multiples of the spacing."""
    values = np.asarray(values, np.float32)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(np.where(np.isfinite(values), values, 1))[1] - 1, -126)
        spacing = np.ldexp(np.float64(1), exponent - 7)
        rounded = (np.rint(values.astype(np.float64) / spacing) * spacing).astype(np.float32)
    rounded = np.asarray(np.where(np.isfinite(values), np.copysign(rounded, values), values), np.float32)
    bits = (np.asarray(rounded).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7fc0), bits)


def widen(array, dtype):
    if dtype != "bf16":
        return array
    return np.asarray(np.asarray(array).astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_as_node(values, dtype):
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            return bf16_bits(np.asarray(values).astype(np.float32))
        if dtype == "f16":
            return np.asarray(values).astype(np.float32).astype(np.float16)
        return np.asarray(values).astype(STORAGE[dtype])


def bits_of(array):
    array = np.asarray(array)
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


class Failure(str):
    """What the evaluator answered instead of results."""


class Batch:
    """Collects graphs and evaluates them in one process."""

    def __init__(self):
        self.texts, self.inputs, self.outputs = [], [], []

    def add(self, body, returns, **inputs):
        """inputs: name=(dtype, array). Returns the graph's number."""
        number = len(self.texts)
        signature = ", ".join(f"%{name}: {dtype}[{','.join(map(str, np.shape(array)))}]"
                              for name, (dtype, array) in inputs.items())
        self.texts.append(f"graph g{number}({signature}) {{\n{body}\n  return {returns}\n}}\n")
        self.inputs.append({name: np.asarray(array, STORAGE[dtype]) for name, (dtype, array) in inputs.items()})
        self.outputs.append(returns.count("%"))
        return number

    def run(self, limit_bytes=0):
        """A list per graph of (value, bound) pairs, or a Failure."""
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "graphs.kiln")
            text.write_text("\n".join(self.texts))
            for number, inputs in enumerate(self.inputs):
                for name, array in inputs.items():
                    np.save(f"{folder}/g{number}.{name}.npy", array)
            done = subprocess.run([BUILD_DIR / "bin/kiln_eval", text, folder, str(limit_bytes)],
                                  capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                raise AssertionError(done.stderr)
            lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
            return [self._load(folder, number, lines[f"g{number}"]) for number in range(len(self.texts))]

    def _load(self, folder, number, line):
        if line != "ok":
            return Failure(line)
        return [(np.load(f"{folder}/g{number}.{i}.npy"), np.load(f"{folder}/g{number}.{i}.bound.npy"))
                for i in range(self.outputs[number])]


def evaluate(body, returns="%y", **inputs):
    """One graph: its (value, bound) pairs, or a Failure."""
    batch = Batch()
    batch.add(body, returns, **inputs)
    return batch.run()[0]
