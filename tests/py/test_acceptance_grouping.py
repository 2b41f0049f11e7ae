"""Horizontal grouping, row by row: launches of every row of the reference's tables, values of a sample.

The graphs are written here from the shapes of each row (those of tests/acceptance/cases/grouping are checked by
test_acceptance.py). `LAUNCHES` of a row are the most that are allowed; kinds say what must not be there: a copy of a
split or of a concatenation would be an element-wise launch. Values are checked on the emulated device against the
reference evaluator, each element within its bound.
Labels: release-only (the sanitized emulator takes minutes)
"""
import tempfile
import unittest
from pathlib import Path

from kiln_command import EMULATED, kiln, statistics


class Graph:
    """The text of a graph, one line after the other."""

    def __init__(self, dtype):
        self.dtype, self.inputs, self.lines, self.outputs = dtype, [], [], []

    def input(self, *shape):
        self.inputs.append(f"%i{len(self.inputs)}: {self.dtype}[{','.join(map(str, shape))}]")
        return self.inputs[-1].split(":")[0]

    def op(self, name, *operands, results=1, **attributes):
        names = [f"%t{len(self.lines)}_{i}" for i in range(results)]
        listed = ", ".join(f"{key}={value}" for key, value in attributes.items()).replace(" ", "")
        self.lines.append(f"{', '.join(names)} = {name}({', '.join(operands)}) {{{listed}}}")
        return names if results > 1 else names[0]

    def norm(self, shape, kept, kind="LNSM", gamma=True, beta=True):
        """Layer norm over the axes from `kept` on; LNSM is layer norm, sigmoid, mul written out."""
        trailing = list(shape[kept:])
        x = self.input(*shape)
        affine = [self.input(*trailing) if wanted else "none" for wanted in (gamma, beta)]
        y = self.op("layernorm", x, *affine, normalized_shape=trailing, eps=1e-5)
        self.outputs.append(self.op("mul", x, self.op("sigmoid", y)) if kind == "LNSM" else y)

    def gemm(self, op, n, k, a=None, m=None):
        a = a or self.input(m, k)
        bias = [] if op == "gemm_rcr" else [self.input(n)]
        return self.op(op, a, self.input(n, k), *bias)

    def text(self):
        body = "\n  ".join(self.lines)
        return f"graph g({', '.join(self.inputs)}) {{\n  {body}\n  return {', '.join(self.outputs)}\n}}\n"


OPS = ("gemm_rcr", "gemm_rcr_bias", "gemm_rcr_bias_relu", "gemm_rcr_bias_sigmoid")


def norms(dtype, shapes, kept=1, **options):
    graph = Graph(dtype)
    for shape in shapes:
        graph.norm(shape, kept if isinstance(kept, int) else kept[len(shape)], **options)
    return graph


def gemms(dtype, op, sizes):
    """(M, n, k) each."""
    graph = Graph(dtype)
    graph.outputs = [graph.gemm(op, n, k, m=m) for m, n, k in sizes]
    return graph


def split_columns(dtype, m):
    graph = Graph(dtype)
    parts = graph.op("split", graph.input(m, 232), results=3, dim=1, sizes=[64, 40, 128])
    graph.outputs = [graph.gemm("gemm_rcr_bias", 16, k, a=part) for part, k in zip(parts, (64, 40, 128), strict=True)]
    graph.outputs += [graph.gemm("gemm_rcr_bias", n, k, m=m) for n, k in ((1, 16), (3, 48))]
    return graph


def split_rows(dtype):
    graph = Graph(dtype)
    parts = graph.op("split", graph.input(144, 64), results=3, dim=0, sizes=[48, 48, 48])
    graph.outputs = [graph.gemm("gemm_rcr_bias", 16, 64, a=part) for part in parts]
    graph.outputs += [graph.gemm("gemm_rcr_bias", n, k, m=48) for n, k in ((1, 16), (3, 48))]
    return graph


def concatenated(dtype, op, m, sizes, behind=0):
    graph = Graph(dtype)
    first = [graph.input(m, behind)] if behind else []
    parts = [graph.gemm(op, n, k, m=m) for n, k in sizes]
    graph.outputs = [graph.op("cat", *first, *parts, dim=1)]
    return graph


def split_and_concatenated(dtype, op, order):
    graph = Graph(dtype)
    parts = graph.op("split", graph.input(128, 112), results=3, dim=1, sizes=[32, 16, 64])
    made = {i: graph.gemm(op, 32, (32, 16, 64)[i], a=parts[i]) for i in order}
    graph.outputs = [graph.op("cat", *(made[i] for i in order), dim=1)]
    return graph


# (name, graph, launches at most, are values checked too)
ROWS = [
    ("4_of_256_lnsm", norms("f16", [(128, 256)] * 4), 1, False),
    ("128_256_125", norms("f16", [(128, 128), (128, 256), (128, 125)]), 2, True),
    ("no_beta", norms("f16", [(10, 64)] * 3, beta=False), 1, True),
    ("no_gamma", norms("f16", [(128, 1025), (128, 1276), (128, 1023)], gamma=False), 2, False),
    ("other_leading_dims", norms("f16", [(64, 64), (128, 256), (1, 125)]), 2, True),
    ("two_of_125", norms("f16", [(128, 128), (128, 256), (128, 125), (128, 125)]), 2, False),
    ("39_and_10", norms("f32", [(128, 64)] * 39 + [(128, 256)] * 10), 2, False),
    ("50_of_64", norms("f16", [(128, 64)] * 50), 1, False),
    ("600_of_64", norms("f16", [(16, 64)] * 600, kind="LN"), 1, False),
    ("2000_of_64", norms("f16", [(4, 64)] * 2000, kind="LN"), 1, False),
    ("over_one_and_two_dims",
     norms("f16", [(3, 256, 64), (3, 256, 256), (3, 256, 125), (2, 512, 256, 16), (2, 512, 128, 4)], {3: 2, 4: 2}), 3,
     False),
    ("many_rows_lnsm", norms("f16", [(330, 200, 48)] * 5, 2), 1, False),
    ("many_rows_ln", norms("f16", [(330, 200, 48)] * 5, 2, kind="LN"), 1, False),
    ("one_and_none", norms("f16", [(1, 1), (1, 0), (1, 1)]), 2, True),
    ("wide_and_none", norms("f16", [(128, 1025), (128, 0), (128, 1023)]), 2, False),
    ("widths_2_to_1001", norms("f16", [(4, n) for n in range(2, 1002)], kind="LN"), 4, False),
    ("one_alignment", gemms("f16", "gemm_rcr_bias", [(1024, 16, 64), (1024, 32, 32)]), 1, False),
    ("plain", gemms("f16", "gemm_rcr", [(1024, 16, 64), (1024, 32, 40)]), 1, False),
    ("narrow_stores", gemms("f16", "gemm_rcr_bias_relu", [(1024, 16, 64), (1024, 32, 40), (1024, 75, 128)]), 1, True),
    ("alignments_8_and_4", gemms("f16", "gemm_rcr_bias", [(1024, 16, 44), (1024, 32, 32)]), 1, False),
    ("odd_f16", gemms("f16", "gemm_rcr_bias", [(1024, 16, 13), (1024, 32, 1)]), 1, True),
    ("odd_f32", gemms("f32", "gemm_rcr_bias", [(1024, 16, 13), (1024, 32, 1)]), 1, True),
    ("narrow_stores_f32", gemms("f32", "gemm_rcr_bias_relu", [(32, 16, 64), (32, 32, 40), (32, 75, 128)]), 1, False),
    ("m_differs", gemms("f16", "gemm_rcr", [(128, 32, 64), (256, 32, 64)]), 1, False),
    ("split_dim_1_f16", split_columns("f16", 1024), 2, False),
    ("split_dim_1_f32", split_columns("f32", 32), 2, True),
    ("split_dim_0", split_rows("f16"), 1, True),
    *((f"{op}_{dtype}", gemms(dtype, op, [(256, 60, 128), (256, 64, 192)]), 1, dtype == "bf16" and op == OPS[3])
      for op in OPS for dtype in ("f16", "bf16", "f32")),
    *((f"cat_{op}_{dtype}", concatenated(dtype, op, 256, [(60, 128), (64, 192)]), 1, dtype == "f32")
      for op in OPS[:2] for dtype in ("f16", "bf16", "f32")),
    *((f"split_and_cat_{op}_{dtype}_{order}", split_and_concatenated(dtype, op, order), 1, order[0] == 1)
      for op in OPS[:2] for dtype in ("f16", "f32") for order in ((0, 1, 2), (1, 0, 2))),
    *((f"cat_behind_{width}_{dtype}", concatenated(dtype, "gemm_rcr_bias", 18, [(24, 32), (62, 16)], width), 2, True)
      for width in (2, 4) for dtype in ("f16", "f32")),
]


class Rows(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = Path(holder.name, "graph.kiln")

    def test_launches_are_as_stated(self):
        for name, graph, launches, _ in ROWS:
            with self.subTest(name):
                self.path.write_text(graph.text())
                said = statistics(self.path)
                self.assertLessEqual(said["launches"], launches)
                kinds = [group["kind"] for group in said["groups"]]
                if "split" in name or name.startswith("cat_gemm"):
                    self.assertNotIn("elementwise", kinds)

    def test_values_agree_with_the_reference(self):
        for name, graph, _, is_checked in ROWS:
            with self.subTest(name):
                self.path.write_text(graph.text())
                if is_checked:
                    kiln("run", *EMULATED, self.path, "--check")


if __name__ == "__main__":
    unittest.main()
