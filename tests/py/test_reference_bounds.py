"""The reference evaluator's bounds against a device that errs as much as it may.

Chains of ops are run here in the arithmetic type, each result shifted at random by as many units in the last place as its row
in ops.def allows; sums are taken in several orders. Whatever comes out must be within the evaluator's bound, or undecided; and
the bounds must be of use: few elements undecided, and a result that is off by a thousandth found out.
"""
import unittest
import warnings

import numpy as np

from kiln_reference import ANY_FORM, FLOATS, Batch, evaluate, round_as_node, widen

SIGMOID = lambda x: 1 / (1 + np.exp(-x))
# name: function, ulps in f32, ulps in f64
UNARY = {"exp": (np.exp, 2, 1), "expm1": (np.expm1, 1, 1), "log1p": (np.log1p, 1, 1), "sqrt": (np.sqrt, 0, 0), "sin": (np.sin, 2, 2),
         "cos": (np.cos, 2, 2), "tanh": (np.tanh, 2, 2), "sigmoid": (SIGMOID, 6, 6), "silu": (lambda x: x * SIGMOID(x), 10, 10),
         "neg": (np.negative, 0, 0), "abs": (np.abs, 0, 0), "relu": (lambda x: np.maximum(x, 0), 0, 0), "floor": (np.floor, 0, 0),
         "round": (np.rint, 0, 0), "sign": (lambda x: np.where(np.isnan(x), 0, np.sign(x)), 0, 0), "reciprocal": (lambda x: 1 / x, 0, 0), "rsqrt": (lambda x: 1 / np.sqrt(x), 2, 1),
         "log": (np.log, 1, 1)}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum}


def arithmetic(dtype):
    return np.float64 if dtype == "f64" else np.float32


class Device:
    """Arithmetic of one dtype with errors of its own."""

    def __init__(self, dtype, seed):
        self.dtype, self.type, self.rng = dtype, arithmetic(dtype), np.random.default_rng(seed)

    def store(self, values, ulps=0):
        """Longdouble values, off by up to ulps, as the device stores them (numbers of the dtype)."""
        near = np.abs(np.asarray(values).astype(self.type))
        unit = np.spacing(np.where(np.isfinite(near), near, 1)).astype(np.longdouble)
        shift = max(ulps - 0.5, 0) * self.rng.uniform(-1, 1, np.shape(values))
        shifted = np.where(shift == 0, values, values + shift * unit)  # -0.0 + 0 would lose its sign
        return widen(round_as_node(shifted.astype(self.type), self.dtype), self.dtype).astype(self.type)

    def total(self, values, axis=-1):
        """A sum in the arithmetic type: serial runs of 16, then pairs, in an order of its own."""
        values = np.moveaxis(np.asarray(values, self.type), axis, -1)
        values = values[..., self.rng.permutation(values.shape[-1])]
        pad = -values.shape[-1] % 16
        values = np.concatenate([values, np.zeros(values.shape[:-1] + (pad,), self.type)], -1)
        runs = values.reshape(values.shape[:-1] + (16, -1))
        partial = runs[..., 0, :]
        for i in range(1, 16):
            partial = (partial + runs[..., i, :]).astype(self.type)
        while partial.shape[-1] > 1:
            if partial.shape[-1] % 2:
                partial = np.concatenate([partial, np.zeros(partial.shape[:-1] + (1,), self.type)], -1)
            partial = (partial[..., 0::2] + partial[..., 1::2]).astype(self.type)
        return partial[..., 0] if partial.shape[-1] else np.zeros(partial.shape[:-1], self.type)


class BoundsTest(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore", RuntimeWarning)

    def outside(self, got, result, dtype):
        value, bound = result
        value = widen(value, dtype).astype(np.float64)
        got = np.asarray(got, np.float64)
        fine = np.isinf(bound) | (got == value) | (np.isnan(got) & np.isnan(value)) | (np.abs(got - value) <= bound)
        return ~fine

    def assert_within(self, got, result, dtype, what, most_undecided=0.35):
        wrong = self.outside(got, result, dtype)
        self.assertFalse(wrong.any(), f"{what}: {np.asarray(got)[wrong][:4]} for {widen(result[0], dtype)[wrong][:4]} +- {result[1][wrong][:4]}")
        self.assertLessEqual(np.isinf(result[1]).mean(), most_undecided, f"{what}: undecided")

    def assert_finds_a_thousandth(self, result, dtype, what):
        """Values off by a thousandth (halves: by four units in the last place) of themselves do not pass."""
        value, bound = widen(result[0], dtype).astype(np.float64), result[1]
        decided = np.isfinite(bound) & np.isfinite(value) & (np.abs(value) > 0.05 * np.abs(value[np.isfinite(value)]).max())
        off = value * (1 + {"f16": 4 * 2**-10, "bf16": 4 * 2**-7}.get(dtype, 1e-3))
        self.assertGreater(self.outside(off, result, dtype)[decided].mean(), 0.9, f"{what}: too wide")

    # -- chains of element-wise ops -----------------------------------------------------------------------------
    def random_chain(self, rng, dtype):
        """Text and device results of a chain of ops that stays among moderate numbers."""
        device, x = Device(dtype, rng.integers(1 << 30)), round_as_node(rng.normal(0, 2, 64), dtype)
        lines, current = [], widen(x, dtype).astype(arithmetic(dtype))
        history = [("x", current)]
        for i in range(rng.integers(2, 7)):
            name, latest = history[-1]
            if rng.random() < 0.5:
                op = rng.choice(list(UNARY))
                function, ulps32, ulps64 = UNARY[op]
                text, wide = f"{op}(%{name})", function(latest.astype(np.longdouble))
                ulps = ulps64 if dtype == "f64" else ulps32
            else:
                op, (other, older) = rng.choice(list(BINARY)), history[rng.integers(len(history))]
                text, ulps = f"{op}(%{name}, %{other})", 0
                wide = BINARY[op](latest.astype(np.longdouble), older.astype(np.longdouble))
            history.append((f"t{i}", device.store(wide, ulps)))
            lines.append(f"  %t{i} = {text}")
        return "\n".join(lines), history[-1], x

    def test_chains_of_inexact_ops_stay_within_their_bounds(self):
        for dtype in FLOATS:
            rng, batch, chains = np.random.default_rng(2), Batch(), []
            for _ in range(300):
                body, (name, got), x = self.random_chain(rng, dtype)
                chains.append((body, got))
                batch.add(body, f"%{name}", x=(dtype, x))
            undecided = []
            for (body, got), (result,) in zip(chains, batch.run()):
                self.assert_within(got, result, dtype, f"{dtype}\n{body}", 1)
                undecided.append(np.isinf(result[1]).mean())
            self.assertLess(np.mean(undecided), 0.15, f"{dtype}: too much is undecided")

    def test_bounds_of_a_chain_are_no_wider_than_useful(self):
        x = np.linspace(0.5, 3, 200)
        for dtype in FLOATS:
            body = "  %a = exp(%x)\n  %b = tanh(%x)\n  %c = add(%a, %b)\n  %d = log(%c)\n  %y = mul(%d, %x)"
            result = evaluate(body, x=(dtype, round_as_node(x, dtype)))[0]
            self.assert_finds_a_thousandth(result, dtype, dtype)

    # -- what jumps ---------------------------------------------------------------------------------------------
    def undecided(self, body, x, **more):
        """Which elements of %y are undecided, given %e = something about 1 ulp off."""
        (_, bound), = evaluate("  %e = exp(%x)\n" + body, x=("f32", x), **more)
        return np.isinf(bound).tolist()

    def test_what_jumps_is_undecided_only_where_the_operand_may_lie_on_either_side(self):
        x = np.array([0.0, 1.0, -1.0])  # exp: 1 (+- 2 ulp), 2.718, 0.368
        for body in ["floor(%e)", "ceil(%e)", "trunc(%e)", "cast(%e) {dtype=i32}", "gt(%e, %o)", "eq(%e, %o)", "ne(%e, %o)",
                     "floordiv(%e, %o)", "remainder(%e, %o)"]:
            text = f"  %o = full() {{shape=[1], value=1, dtype=f32}}\n  %y = {body}"
            self.assertEqual(self.undecided(text, x), [True, False, False], body)

    def test_an_undecided_condition_matters_only_where_the_branches_differ(self):
        text = "  %o = full() {shape=[1], value=1, dtype=f32}\n  %c = gt(%e, %o)\n  %y = where(%c, %a, %b)"
        a, b = ("i32", np.array([1, 1])), ("i32", np.array([1, 2]))
        self.assertEqual(self.undecided(text, np.zeros(2), a=a, b=b), [False, True])

    def test_a_pole_inside_the_interval_is_undecided(self):
        text = "  %o = full() {shape=[1], value=1, dtype=f32}\n  %z = sub(%e, %o)\n"
        for body in ["reciprocal(%z)", "div(%o, %z)", "log(%z)", "rsqrt(%z)", "sign(%z)", "logical_not(%z)", "cast(%z) {dtype=bool}"]:
            self.assertEqual(self.undecided(text + f"  %y = {body}", np.array([0.0, 1.0])), [True, False], body)

    def test_extremes_of_near_ties_are_undecided(self):
        for op in ["argmax", "argmin"]:
            sign = 1 if op == "argmax" else -1
            rows = sign * np.array([[1, 2, 3], [3, 1, 3], [np.nextafter(np.float32(3), 9), 1, 3]], np.float32)
            self.assertEqual(self.undecided(f"  %y = {op}(%e) {{dim=1}}", rows), [False, True, True], op)
        self.assertEqual(self.undecided("  %y = amax(%e) {dims=[1]}", np.array([[3.0, 3], [1, 2]])), [False, False])

    def test_any_and_all_are_decided_by_one_certain_element(self):
        text = "  %o = full() {shape=[1], value=1, dtype=f32}\n  %z = sub(%e, %o)\n  %y = "
        rows = np.array([[0.0, 1], [0, 0], [1, 2]])
        self.assertEqual(self.undecided(text + "any(%z) {dims=[1]}", rows), [False, True, False])
        self.assertEqual(self.undecided(text + "all(%z) {dims=[1]}", rows), [True, True, False])

    def test_one_undecided_element_or_an_overflow_makes_a_normalized_row_undecided(self):
        for op in ["layernorm(%f, none, none)", "rmsnorm(%f, none)", "layernorm_sigmoid_mul(%f, none, none)"]:
            text = f"  %f = floor(%e)\n  %y = {op} {{normalized_shape=[2]}}"
            self.assertEqual(self.undecided(text, np.array([[0.0, 2], [1, 2]])), [[True, True], [False, False]], op)
            (_, bound), = evaluate(f"  %y = {op} {{normalized_shape=[2]}}", f=("f32", [[1e30, -1e30]]))
            self.assertTrue(np.all(np.isinf(bound)), op)
        for op in ["softmax", "log_softmax"]:
            text = f"  %f = floor(%e)\n  %y = {op}(%f) {{dim=1}}"
            self.assertEqual(self.undecided(text, np.array([[0.0, 2], [1, 2]])), [[True, True], [False, False]], op)

    def test_an_undecided_index_makes_what_it_picks_undecided(self):
        text = "  %f = floor(%e)\n  %i = cast(%f) {dtype=i32}\n  %y = gather(%t, %i) {dim=0}"
        self.assertEqual(self.undecided(text, np.array([0.0, 1.0]), t=("i32", [4, 5, 6])), [True, False])

    def test_an_interval_past_the_largest_number_is_undecided(self):
        largest, x = np.float64(np.finfo(np.float32).max), np.array([1.0, 2.0, 2.0])
        factors = largest / np.exp(x) * [1, 1, 0.9]
        self.assertEqual(self.undecided("  %y = mul(%e, %s)", x, s=("f32", factors)), [True, True, False])
        (value, bound), = evaluate("  %y = exp(%x)", x=("f32", [200.0]))
        self.assertEqual((value[0], bound[0]), (np.inf, 0))

    # -- accumulations ------------------------------------------------------------------------------------------
    def test_sums_in_any_tree_stay_within_their_bounds(self):
        rng = np.random.default_rng(4)
        for dtype in FLOATS:
            for shape in [(5, 3), (4, 100), (3, 4099)]:
                device, x = Device(dtype, 1), round_as_node(rng.normal(0.3, 1, shape), dtype)
                wide, count = widen(x, dtype).astype(arithmetic(dtype)), device.type(shape[1])
                mean = device.total(wide) / count
                squares = device.total((wide - mean[:, None])**2)
                results = evaluate("  %s = sum(%x) {dims=[1]}\n  %m = mean(%x) {dims=[1]}\n  %v = var(%x) {dims=[1]}", "%s, %m, %v", x=(dtype, x))
                for got, result, op in zip([device.total(wide), mean, squares / (count - 1)], results, ["sum", "mean", "var"]):
                    self.assert_within(device.store(got), result, dtype, f"{op} {dtype} {shape}")
                    self.assert_finds_a_thousandth(result, dtype, f"{op} {dtype} {shape}")

    def test_var_and_layernorm_allow_for_the_rounding_of_their_mean(self):
        # The sum is exact, the mean is not a number of f32, and the spread is no larger than its spacing.
        x, device = np.array([[1000000.0, 1000001, 1000001]], np.float32), Device("f32", 1)
        mean = device.total(x) / np.float32(3)
        var = device.total((x - mean)**2) / np.float32(2)
        norm = (x - mean) / np.sqrt(var * np.float32(2 / 3) + np.float32(1e-5))
        results = evaluate("  %v = var(%x) {dims=[1]}\n  %n = layernorm(%x, none, none) {normalized_shape=[3]}", "%v, %n", x=("f32", x))
        self.assert_within(var, results[0], "f32", "var")
        self.assert_within(norm, results[1], "f32", "layernorm")

    def test_products_in_any_order_stay_within_their_bounds(self):
        rng = np.random.default_rng(4)
        for dtype in ["f32", "f64"]:
            x = round_as_node(np.exp(rng.normal(0, 0.2, (4, 300))), dtype)
            result = evaluate("  %y = prod(%x) {dims=[1]}", x=(dtype, x))[0]
            self.assert_within(np.multiply.accumulate(x, 1, arithmetic(dtype))[:, -1], result, dtype, "serial")
            self.assert_within(np.multiply.accumulate(x[:, ::-1], 1, arithmetic(dtype))[:, -1], result, dtype, "backwards")
            self.assert_finds_a_thousandth(result, dtype, dtype)

    def test_normalizations_in_the_arithmetic_type_stay_within_their_bounds(self):
        rng = np.random.default_rng(6)
        for dtype in FLOATS:
            for width, offset in [(1, 0), (7, 0), (64, 5), (1000, -1), (2048, 100)]:
                device = Device(dtype, width)
                x, g, b = (round_as_node(rng.normal(at, 1, shape), dtype) for at, shape in [(offset, (3, width)), (1, width), (0, width)])
                wide, gamma, beta = (widen(v, dtype).astype(device.type) for v in (x, g, b))
                count, one = device.type(width), device.type(1)
                mean = (device.total(wide) / count)[:, None]
                scale = one / np.sqrt((device.total((wide - mean)**2) / count)[:, None] + device.type(1e-5))
                norm = (wide - mean) * scale * gamma + beta
                rms = wide * (one / np.sqrt((device.total(wide**2) / count)[:, None] + device.type(1e-5))) * gamma
                shifted = wide - wide.max(1, keepdims=True)
                weights = np.exp(shifted.astype(np.longdouble)).astype(device.type)
                total = device.total(weights)[:, None]
                expected = {"layernorm(%x, %g, %b)": norm, "layernorm_sigmoid_mul(%x, %g, %b)": wide * (one / (one + np.exp(-norm))),
                            "rmsnorm(%x, %g)": rms, "softmax": weights / total, "log_softmax": shifted - np.log(total)}
                for op, got in expected.items():
                    attrs = f"{{normalized_shape=[{width}]}}" if "(" in op else "{dim=1}"
                    text = op if "(" in op else op + "(%x)"
                    result = evaluate(f"  %y = {text} {attrs}", x=(dtype, x), g=(dtype, g), b=(dtype, b))[0]
                    self.assert_within(device.store(got), result, dtype, f"{op} {dtype} {width}")
                    if offset < 100 and width > 1:
                        self.assert_finds_a_thousandth(result, dtype, f"{op} {dtype} {width}")

    def test_normalizations_of_inexact_operands_stay_within_their_bounds(self):
        rng = np.random.default_rng(8)
        for dtype in ["f16", "f32"]:
            device, x = Device(dtype, 3), round_as_node(rng.normal(0, 1, (4, 50)), dtype)
            powers = device.store(np.exp(widen(x, dtype).astype(np.longdouble)), 2)
            mean = (device.total(powers) / device.type(50))[:, None]
            norm = (powers - mean) / np.sqrt((device.total((powers - mean)**2) / device.type(50))[:, None] + device.type(1e-5))
            weights = np.exp(powers - powers.max(1, keepdims=True))
            results = evaluate("  %s = exp(%x)\n  %n = layernorm(%s, none, none) {normalized_shape=[50]}\n  %w = softmax(%s) {dim=1}\n"
                               "  %t = sum(%s) {dims=[1]}\n  %p = gemm_rcr(%s, %s)\n  %h = slice(%s) {starts=[0,0], limits=[4,6]}\n"
                               "  %q = prod(%h) {dims=[1]}", "%n, %w, %t, %p, %q", x=(dtype, x))
            product = np.multiply.accumulate(powers[:, :6], 1)[:, -1]
            gots = [norm, weights / device.total(weights)[:, None], device.total(powers), powers @ powers.T, product]
            for got, result, op in zip(gots, results, ["layernorm", "softmax", "sum", "gemm_rcr", "prod"]):
                self.assert_within(device.store(got), result, dtype, f"{op} {dtype}")

    def test_contractions_in_the_arithmetic_type_stay_within_their_bounds(self):
        rng = np.random.default_rng(9)
        for dtype in FLOATS:
            for k in [1, 2, 33, 700]:
                device = Device(dtype, k)
                a, b, c = (round_as_node(rng.normal(0.1, 1, shape), dtype) for shape in [(6, k), (5, k), (5,)])
                wide_a, wide_b, bias = (widen(v, dtype).astype(device.type) for v in (a, b, c))
                total = np.zeros((6, 5), device.type)
                for i in range(k):  # one after the other, as a plain kernel does
                    total = total + wide_a[:, i, None] * wide_b[None, :, i]
                scaled = total * device.type(0.3) + bias
                results = evaluate("  %p = gemm_rcr(%a, %b)\n  %q = gemm_rcr_bias_relu(%a, %b, %c) {alpha=0.3}\n  %r = gemm_rcr_bias_sigmoid(%a, %b, %c) {alpha=0.3}",
                                   "%p, %q, %r", a=(dtype, a), b=(dtype, b), c=(dtype, c))
                gots = [total, np.maximum(scaled, 0), device.type(1) / (device.type(1) + np.exp(-scaled))]
                for got, result, op in zip(gots, results, ["gemm_rcr", "relu", "sigmoid"]):
                    self.assert_within(device.store(got), result, dtype, f"{op} {dtype} {k}")
                    if k < 100:  # a serial sum of 700 terms may be further off
                        self.assert_finds_a_thousandth(result, dtype, f"{op} {dtype} {k}")

    def test_the_least_bound_is_the_least_double(self):
        self.assertEqual(ANY_FORM, np.nextafter(0.0, 1.0))


if __name__ == "__main__":
    unittest.main()
