"""The acceptance graphs: launches, rewritten repetitions and values, and more graphs of the same kinds.

tests/acceptance/cases/index.json states launches (at most) and fires (repetitions rewritten). Values are
checked twice: by `kiln run --check` against the reference evaluator, and here against NumPy.
Labels: release-only (the sanitized emulator takes minutes; test_cli runs the same code)
"""
import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
from kiln_command import EMULATED, ROOT, kiln, run_local, statistics
from kiln_reference import bf16_bits, bits_of, widen

CASES = ROOT / "tests/acceptance/cases"
INDEX = json.loads((CASES / "index.json").read_text())
SMALL = [case for case in INDEX if not case["name"].endswith("_full")]
RNG = np.random.default_rng(20240531)


def path_of(case):
    return CASES / case["set"] / f"{case['name']}.kiln"


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def normal_bf16(*shape):
    return bf16_bits(normal(*shape))


class Index(unittest.TestCase):
    def test_launches_and_repetitions_are_as_stated(self):
        for case in INDEX:
            with self.subTest(case["name"]):
                said = statistics(path_of(case))
                if case["launches"] is not None:
                    self.assertLessEqual(said["launches"], case["launches"])
                if case["fires"] is not None:
                    fires = case["fires"] if isinstance(case["fires"], list) else [case["fires"]]
                    self.assertIn(said["repetitions"], fires)

    def test_values_agree_with_the_reference(self):
        for case in SMALL:
            with self.subTest(case["name"]):
                kiln("run", *EMULATED, path_of(case), "--check")

    def test_passes_keep_the_meaning_of_every_graph(self):
        for case in INDEX:
            if case["set"] == "grouping" or case["name"].endswith("_full"):
                continue
            with self.subTest(case["name"]):
                said = kiln("opt", path_of(case), "--verify", "--print", "none").stderr
                self.assertRegex(said, "verified .* 0 wrong")


# --- the repetition cases against NumPy -----------------------------------------------------------

def rep_rot(x):
    twice = np.tile(x, (2, 1))
    return np.sin(np.concatenate([twice[:, 64:], twice[:, :64]], 1))


# name: (inputs, the outputs in order; exact when the graph moves data only)
MOVES = {
    "cat2": ({"x": normal(32)}, lambda x: [np.tile(x, 2)]),
    "cat4": ({"x": normal(32)}, lambda x: [np.tile(x, 4)]),
    "nested": ({"x": normal(32)}, lambda x: [np.tile(x, 4)]),
    "two_axes": ({"x": normal(4, 8)}, lambda x: [np.tile(x, (2, 2))]),
    "two_same": ({"x": normal(4, 8)}, lambda x: [np.tile(x, (1, 2))] * 2),
    "size1": ({"x": normal(32, 1)}, lambda x: [np.repeat(x, 2, 1)]),
    "repeat_bcast": ({"x": normal(10)}, lambda x: [np.repeat(x[:, None], 2, 1)]),
    "repeat4d": ({"x": normal(2, 1, 3, 1)}, lambda x: [np.tile(x, (2, 2, 2, 2))]),
    "distinct": ({"x": normal(4, 8), "y": normal(4, 8)},
                 lambda x, y: [np.concatenate([x, y], 1), np.concatenate([x, x, y], 1)]),
    "empty_part": ({"x": normal(4, 8)}, lambda x: [np.tile(x, (1, 2))]),
}
SINES = {
    "repeat_sin": ({"x": normal(8, 128)}, lambda x: [np.sin(np.tile(x, (2, 1)))]),
    "rep_rot": ({"x": normal(8, 128)}, lambda x: [rep_rot(x)]),
}
AWKWARD = np.uint32([0x80000000, 0x7fc12345, 0xffc00001, 0x7f800001, 0x00000001, 0xff800000]).view(np.float32)


def outputs_in_order(path, results):
    """The results as the graph returns them (a value that is returned twice has one file)."""
    line = next(line for line in path.read_text().splitlines() if line.strip().startswith("return"))
    return [results[name.strip().lstrip("%")] for name in line.strip()[len("return"):].split(",")]


class Repetitions(unittest.TestCase):
    def test_data_movement_is_bit_exact_also_for_negative_zeros_and_payloads(self):
        for name, (inputs, right) in MOVES.items():
            with self.subTest(name):
                path = CASES / f"repetition/{name}.kiln"
                for array in inputs.values():
                    array.reshape(-1)[:AWKWARD.size] = AWKWARD[:array.size]
                got = outputs_in_order(path, run_local(path, inputs))
                for value, expected in zip(got, right(**inputs), strict=True):
                    np.testing.assert_array_equal(bits_of(value), bits_of(expected))

    def test_sines_of_repetitions(self):
        for name, (inputs, right) in SINES.items():
            with self.subTest(name):
                path = CASES / f"repetition/{name}.kiln"
                exact = {key: array.astype(np.float64) for key, array in inputs.items()}
                for value, expected in zip(outputs_in_order(path, run_local(path, inputs)), right(**exact),
                                           strict=True):
                    np.testing.assert_allclose(value, expected, rtol=0, atol=3e-7)

    def test_the_scaled_table_of_phi3(self):
        path = CASES / "repetition/phi3_table.kiln"
        f = normal(1, 48, 2048)
        table = np.tile(f.astype(np.float64).transpose(0, 2, 1), (1, 1, 2))
        cosine, sine = outputs_in_order(path, run_local(path, {"f": f}))
        for got, right in ((cosine, np.cos(table)), (sine, np.sin(table))):
            np.testing.assert_allclose(widen(got, "bf16"), right * 1.1902380714238083, rtol=2 ** -8, atol=1e-6)


# --- rotary graphs of more models -----------------------------------------------------------------

class Writer:
    """Writes the text of a graph, one op a line."""

    def __init__(self, name, inputs):
        self.head = f"graph {name}({', '.join(f'%{key}: {kind}' for key, kind in inputs.items())}) {{\n"
        self.lines = []

    def op(self, name, *operands, **attributes):
        result = f"t{len(self.lines)}"
        listed = ", ".join(f"{key}={value}" for key, value in attributes.items()).replace(" ", "")
        operand_list = ", ".join(f"%{operand}" for operand in operands)
        self.lines.append(f"  %{result} = {name}({operand_list})" + (f" {{{listed}}}" if listed else ""))
        return result

    def cast(self, value, dtype):
        return self.op("cast", value, dtype=dtype)

    def slice(self, value, shape, axis, start, stop):
        starts, limits = [0] * len(shape), list(shape)
        starts[axis], limits[axis] = start, stop
        return self.op("slice", value, starts=starts, limits=limits)

    def rope(self, x, shape, cosine, sine):
        """bf16(f32(x) f32(C) + f32(rotH(x)) f32(S)) as the models write it."""
        half, full = shape[-1] // 2, shape[-1]
        upper = self.cast(self.slice(x, shape, len(shape) - 1, half, full), "f32")
        upper = self.cast(self.op("neg", upper), "bf16")
        turned = self.op("cat", upper, self.slice(x, shape, len(shape) - 1, 0, half), dim=-1)
        straight = self.op("mul", self.cast(x, "f32"), self.cast(cosine, "f32"))
        turned = self.op("mul", self.cast(turned, "f32"), self.cast(sine, "f32"))
        return self.cast(self.op("add", straight, turned), "bf16")

    def write(self, folder, returns):
        path = Path(folder, "graph.kiln")
        path.write_text(self.head + "\n".join(self.lines) +
                        f"\n  return {', '.join('%' + value for value in returns)}\n}}\n")
        return path


def rope(x, cosine, sine):
    """The same in NumPy, on bf16 bits: f32 products and sum, one rounding."""
    wide, half = widen(x, "bf16"), x.shape[-1] // 2
    turned = np.concatenate([-wide[..., half:], wide[..., :half]], -1)
    return bf16_bits(wide * widen(cosine, "bf16") + turned * widen(sine, "bf16"))


class Rotary(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def check(self, path, inputs, right, launches):
        """right: bits by name."""
        self.assertLessEqual(statistics(path)["launches"], launches)
        got = run_local(path, inputs, "--check")
        for name, expected in right.items():
            np.testing.assert_array_equal(got[name], expected, err_msg=name)
        return got

    def lit_gpt(self, heads, width, groups, rotary, batch, length):
        """qkv [B,T,G*(r+2)*width] -> rope(q), rope(k); cos and sin are inputs."""
        ratio = heads // groups
        shape = [batch, groups, ratio + 2, length, width]
        graph = Writer("lit_gpt", {"qkv": f"bf16[{batch},{length},{width * (heads + 2 * groups)}]",
                                   "cos": f"bf16[{length},{rotary}]", "sin": f"bf16[{length},{rotary}]"})
        split = graph.op("reshape", "qkv", shape=[batch, length, groups, ratio + 2, width])
        split = graph.op("permute", split, dims=[0, 2, 3, 1, 4])
        q = graph.op("reshape", graph.slice(split, shape, 2, 0, ratio), shape=[batch, heads, length, width])
        k = graph.op("reshape", graph.slice(split, shape, 2, ratio, ratio + 1), shape=[batch, groups, length, width])
        returns = [graph.rope(q, [batch, heads, length, width], "cos", "sin"),
                   graph.rope(k, [batch, groups, length, width], "cos", "sin")]
        inputs = {"qkv": normal_bf16(batch, length, width * (heads + 2 * groups)),
                  "cos": normal_bf16(length, rotary), "sin": normal_bf16(length, rotary)}
        parts = inputs["qkv"].reshape(batch, length, groups, ratio + 2, width).transpose(0, 2, 3, 1, 4)
        q = parts[:, :, :ratio].reshape(batch, heads, length, width)
        k = parts[:, :, ratio].reshape(batch, groups, length, width)
        self.check(graph.write(self.folder, returns), inputs,
                   {returns[0]: rope(q, inputs["cos"], inputs["sin"]),
                    returns[1]: rope(k, inputs["cos"], inputs["sin"])}, launches=2)

    def test_lit_gpt_with_as_many_groups_as_heads(self):
        self.lit_gpt(heads=4, width=16, groups=4, rotary=16, batch=2, length=8)

    def test_lit_gpt_with_grouped_queries(self):
        self.lit_gpt(heads=8, width=16, groups=4, rotary=16, batch=2, length=8)

    def test_llama2_with_a_short_sequence(self):
        self.lit_gpt(heads=32, width=128, groups=32, rotary=128, batch=2, length=16)

    def test_llama3_with_a_short_sequence(self):
        self.lit_gpt(heads=32, width=128, groups=8, rotary=128, batch=2, length=16)

    def test_phi3_that_returns_cos_and_sin_for_all_heads(self):
        heads, width, length = 32, 96, 16
        shape = [1, heads, length, width]
        graph = Writer("phi3", {"qkv": f"bf16[1,{length},{3 * heads * width}]", "inv": f"bf16[{width // 2}]",
                                "pos": f"i64[1,{length}]"})
        inv = graph.op("reshape", graph.cast("inv", "f32"), shape=[1, width // 2, 1])
        pos = graph.op("reshape", graph.cast("pos", "f32"), shape=[1, 1, length])
        angle = graph.op("permute", graph.op("matmul", inv, pos), dims=[0, 2, 1])
        angle = graph.op("cat", angle, angle, dim=-1)
        tables = [graph.op("broadcast", graph.cast(graph.op(name, angle), "bf16"), dims=[1]) for name in ("cos", "sin")]
        parts = []
        for i in range(3):
            part = graph.slice("qkv", [1, length, 3 * heads * width], 2, i * heads * width, (i + 1) * heads * width)
            part = graph.op("reshape", part, shape=[1, length, heads, width])
            parts.append(graph.op("permute", part, dims=[0, 2, 1, 3]))
        returns = [parts[2], graph.rope(parts[0], shape, *tables), graph.rope(parts[1], shape, *tables),
                   *(graph.op("expand", table, shape=shape) for table in tables)]
        inputs = {"qkv": normal_bf16(1, length, 3 * heads * width), "pos": np.arange(length)[None],
                  "inv": bf16_bits(1 / 10000 ** (np.arange(0, width, 2, dtype=np.float32) / width))}
        q, k, v = inputs["qkv"].reshape(length, 3, heads, width).transpose(1, 2, 0, 3)
        path = graph.write(self.folder, returns)
        got = self.check(path, inputs, {returns[0]: v[None]}, launches=2)
        self.assertEqual(statistics(path)["repetitions"], 1)
        angle = np.arange(length)[:, None] * np.tile(widen(inputs["inv"], "bf16"), 2).astype(np.float64)
        for name, function in zip(returns[3:], (np.cos, np.sin), strict=True):
            np.testing.assert_allclose(widen(got[name], "bf16"), np.broadcast_to(function(angle), shape), rtol=2 ** -8,
                                       atol=1e-6)
        cosine, sine = got[returns[3]], got[returns[4]]
        np.testing.assert_array_equal(got[returns[1]], rope(q[None], cosine, sine))
        np.testing.assert_array_equal(got[returns[2]], rope(k[None], cosine, sine))

    def test_qwen2_interleaves_keys_and_values_to_all_heads(self):
        heads, groups, width, length = 28, 4, 128, 16
        ratio = heads // groups
        graph = Writer("qwen2", {"q": f"bf16[1,{heads},{length},{width}]", "k": f"bf16[1,{groups},{length},{width}]",
                                 "v": f"bf16[1,{groups},{length},{width}]", "cos": f"bf16[{length},{width}]",
                                 "sin": f"bf16[{length},{width}]"})

        def interleave(value):
            value = graph.op("expand", graph.op("broadcast", value, dims=[2]), shape=[1, groups, ratio, length, width])
            return graph.op("reshape", value, shape=[1, heads, length, width])

        returns = [graph.rope("q", [1, heads, length, width], "cos", "sin"),
                   interleave(graph.rope("k", [1, groups, length, width], "cos", "sin")), interleave("v")]
        inputs = {"q": normal_bf16(1, heads, length, width), "k": normal_bf16(1, groups, length, width),
                  "v": normal_bf16(1, groups, length, width), "cos": normal_bf16(length, width),
                  "sin": normal_bf16(length, width)}
        rotated = rope(inputs["k"], inputs["cos"], inputs["sin"])
        self.check(graph.write(self.folder, returns), inputs,
                   {returns[0]: rope(inputs["q"], inputs["cos"], inputs["sin"]),
                    returns[1]: np.repeat(rotated, ratio, 1), returns[2]: np.repeat(inputs["v"], ratio, 1)},
                   launches=2)


if __name__ == "__main__":
    unittest.main()
