"""The reference evaluator against NumPy: every op, every dtype, awkward shapes and values.

Expected values come from NumPy in float64 or longdouble, or are written out; rounding to the dtype is this test's own.
Where an op is exact the evaluator must claim a bound of 0 and have the very bits; elsewhere its value must be the rounded
expectation (or next to it: the expectation has an error too) and its bound must be positive and small.
"""
import math
import unittest
import warnings

import numpy as np

from kiln_reference import (ANY_FORM, FLOATS, INTEGERS, STORAGE, Batch, Failure, bf16_bits, bits_of, evaluate,
                            round_as_node, widen)

ANY = ["bool"] + INTEGERS + FLOATS
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (2, 3, 5)]
BROADCASTS = [((2, 3), (3,)), ((2, 1), (1, 5)), ((), (4,)), ((3, 1, 2), (4, 1)), ((0, 3), (1, 3)), ((1,), (0,)), ((), ())]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, 3.7, -3.2, 100.0, -7.25, 65504.0, 1e-40, 6e-8, np.inf, -np.inf, np.nan]
FRACTION_BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
LEAST_EXPONENT = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


def values(dtype, shape, seed=1, special=True):
    """Random values of a dtype, special ones first."""
    rng = np.random.default_rng(seed)
    count = math.prod(shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in INTEGERS:
        info = np.iinfo(STORAGE[dtype])
        flat = np.resize([0, 1, 2, info.max, info.min, 5, 3, info.max - 1], count) if special else np.empty(count)
        flat = np.where(rng.random(count) < 0.5, rng.integers(-9 if info.min else 0, 10, count), flat)
        return flat.astype(STORAGE[dtype]).reshape(shape)
    flat = rng.normal(0, 3, count)
    if special:
        flat = np.where(rng.random(count) < 0.4, rng.permutation(np.resize(SPECIAL, count)), flat)
    return round_as_node(flat.reshape(shape), dtype)


def spacing(numbers, dtype):
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(numbers) & (numbers != 0), numbers, 1).astype(np.float64)
        exponent = np.where(numbers == 0, LEAST_EXPONENT[dtype], np.frexp(finite)[1] - 1)
        return np.ldexp(1.0, np.maximum(exponent, LEAST_EXPONENT[dtype]) - FRACTION_BITS[dtype])


class ReferenceTest(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore", RuntimeWarning)

    def assert_bits(self, got, bound, expected, dtype, what):
        """These very bits; NaNs that were computed are all alike."""
        expected = np.asarray(expected, STORAGE[dtype])
        self.assertEqual(got.shape, expected.shape, what)
        self.assertEqual(got.dtype, expected.dtype, what)
        number, wanted = widen(got, dtype), widen(expected, dtype)
        is_nan = np.isnan(wanted) if dtype in FLOATS else np.zeros(got.shape, bool)
        free = (bound == ANY_FORM) & ((wanted == 0) | is_nan)
        same = (bits_of(got) == bits_of(expected)) | (is_nan & np.isnan(number) if dtype in FLOATS else False)
        same |= free & (number == wanted)
        self.assertTrue(np.all(same), f"{what}: {number[~same][:5]} instead of {wanted[~same][:5]}")
        self.assertTrue(np.all((bound == 0) | free), f"{what}: bounds {bound[(bound != 0) & ~free][:5]}")

    def assert_near(self, got, bound, expected, dtype, what, ulps, scale=None):
        """Within a unit in the last place of the rounded expectation; the bound within `ulps` units of f32 (or f64)."""
        self.assertEqual(got.shape, np.shape(expected), what)
        number, wanted = widen(got, dtype), widen(round_as_node(expected, dtype), dtype)
        is_nan = np.isnan(wanted)
        with np.errstate(all="ignore"):
            gap = np.abs(number.astype(np.float64) - wanted)
        near = (number == wanted) | (gap <= spacing(wanted, dtype) * 1.01) | (is_nan & np.isnan(number))
        decided = ~np.isinf(bound)
        self.assertTrue(np.all(near | ~decided), f"{what}: {number[~near][:5]} instead of {wanted[~near][:5]}")
        self.assertGreaterEqual(np.mean(decided) if decided.size else 1, 0.7, f"{what}: too much is undecided")
        arithmetic = "f64" if dtype == "f64" else "f32"
        size = np.abs(np.asarray(expected, np.float64)) if scale is None else np.broadcast_to(scale, got.shape)
        size = np.maximum(size, size.astype(STORAGE[arithmetic]).astype(np.float64))  # may reach the next power of two
        most = ulps * spacing(size, arithmetic) + 1.01 * spacing(size, dtype)
        wide = decided & np.isfinite(wanted) & np.isfinite(size) & (bound > most)
        self.assertFalse(np.any(wide), f"{what}: bounds {bound[wide][:5]} above {most[wide][:5]}")

    # -- element-wise ---------------------------------------------------------------------------------------
    def run_unary(self, ops, dtypes, check, attrs=""):
        batch, cases = Batch(), []
        for op in ops:
            for dtype in dtypes:
                for shape in SHAPES + [(67,)]:
                    x = values(dtype, shape)
                    cases.append((op, dtype, x))
                    batch.add(f"  %y = {op}(%x){attrs}", "%y", x=(dtype, x))
        for (op, dtype, x), result in zip(cases, batch.run()):
            self.assertNotIsInstance(result, Failure, f"{op} {dtype}: {result}")
            check(op, dtype, x, *result[0])

    def test_exact_unary_float_ops_have_the_bits_of_numpy(self):
        ops = {"abs": np.abs, "neg": np.negative, "sqrt": np.sqrt, "reciprocal": lambda x: 1 / x, "floor": np.floor,
               "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
               "relu": lambda x: np.where(x < 0, 0, x), "sign": lambda x: np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0))}

        def check(op, dtype, x, got, bound):
            wide = widen(x, dtype).astype(np.float32 if dtype != "f64" else np.float64)
            self.assert_bits(got, bound, round_as_node(ops[op](wide), dtype), dtype, f"{op} {dtype} {x.shape}")
        self.run_unary(ops, FLOATS, check)

    def test_transcendental_ops_are_rounded_and_bounded_by_their_ulps(self):
        wide_erf = np.vectorize(math.erf, otypes=[np.float64])
        wide_erfc = np.vectorize(math.erfc, otypes=[np.float64])
        sigmoid = lambda x: 1 / (1 + np.exp(-x))
        ops = {"exp": (np.exp, 2), "exp2": (np.exp2, 2), "expm1": (np.expm1, 1), "log": (np.log, 1), "log2": (np.log2, 1),
               "log1p": (np.log1p, 1), "rsqrt": (lambda x: 1 / np.sqrt(x), 2), "sin": (np.sin, 2), "cos": (np.cos, 2),
               "tan": (np.tan, 4), "tanh": (np.tanh, 2), "erf": (wide_erf, 2), "sigmoid": (sigmoid, 6),
               "silu": (lambda x: x * sigmoid(x), 10)}
        self.check_approximate(ops, "", 2)
        gelu = {"gelu": (lambda x: 0.5 * x * wide_erfc(-x.astype(np.float64) / math.sqrt(2)), 512)}
        self.check_approximate(gelu, "", 4097)
        gelu_tanh = {"gelu": (lambda x: x * sigmoid(2 * np.sqrt(2 / np.longdouble(np.pi)) * (x + 0.044715 * x**3)), 512)}
        self.check_approximate(gelu_tanh, ' {approximate="tanh"}', 4097)

    def check_approximate(self, ops, attrs, more_in_f64):
        def check(op, dtype, x, got, bound):
            function, ulps = ops[op]
            expected = function(widen(x, dtype).astype(np.longdouble))
            ulps += more_in_f64 if dtype == "f64" else 0.5
            if dtype == "f64" and op in ("erf", "gelu"):  # the expectation itself is in double only
                return self.assertTrue(np.allclose(got, expected.astype(np.float64), 1e-11, 1e-15, equal_nan=True), op)
            return self.assert_near(got, bound, expected, dtype, f"{op} {dtype} {x.shape}", ulps)
        self.run_unary(ops, FLOATS, check, attrs)

    def test_exact_unary_integer_ops_wrap_like_numpy(self):
        same = lambda x: x
        ops = {"abs": np.abs, "neg": np.negative, "floor": same, "ceil": same, "trunc": same, "round": same,
               "relu": lambda x: np.where(x < 0, 0, x), "sign": np.sign, "bitwise_not": np.invert}

        def check(op, dtype, x, got, bound):
            self.assert_bits(got, bound, ops[op](x).astype(x.dtype), dtype, f"{op} {dtype}")
        self.run_unary(ops, INTEGERS, check)
        self.run_unary(["bitwise_not"], ["bool"], lambda op, dtype, x, got, bound:
                       self.assert_bits(got, bound, ~x, dtype, op))

    def test_predicates_give_bool(self):
        ops = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}

        def check(op, dtype, x, got, bound):
            self.assert_bits(got, bound, ops[op](widen(x, dtype)), "bool", f"{op} {dtype}")
        self.run_unary(ops, INTEGERS + FLOATS, check)
        self.run_unary(["logical_not"], ANY, lambda op, dtype, x, got, bound:
                       self.assert_bits(got, bound, np.logical_not(widen(x, dtype)), "bool", f"{op} {dtype}"))

    def run_binary(self, ops, dtypes, check):
        batch, cases = Batch(), []
        for op in ops:
            for dtype in dtypes:
                for a_shape, b_shape in BROADCASTS + [((97,), (97,))]:
                    a, b = values(dtype, a_shape, 2), values(dtype, b_shape, 3)
                    cases.append((op, dtype, a, b))
                    batch.add(f"  %y = {op}(%a, %b)", "%y", a=(dtype, a), b=(dtype, b))
        for (op, dtype, a, b), result in zip(cases, batch.run()):
            self.assertNotIsInstance(result, Failure, f"{op} {dtype}: {result}")
            check(op, dtype, a, b, *result[0])

    def test_exact_binary_float_ops_have_the_bits_of_numpy(self):
        ops = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
               "minimum": np.minimum, "floordiv": np.floor_divide, "remainder": np.remainder}

        def check(op, dtype, a, b, got, bound):
            wide = np.float64 if dtype == "f64" else np.float32
            x, y = widen(a, dtype).astype(wide), widen(b, dtype).astype(wide)
            expected = ops[op](x, y)
            if op == "floordiv":  # NumPy has NaN for inf by a finite number and inf by 0 alike; both follow fmod
                expected = np.where(y == 0, x / y, expected)
                far = np.abs(expected) >= 2**21  # such quotients have neighbours nearer than the fraction
                expected = np.where(far, widen(got, dtype), expected)
                bound = np.where(far, 0, bound)
            self.assert_bits(got, bound, round_as_node(expected, dtype), dtype, f"{op} {dtype} {a.shape} {b.shape}")
        self.run_binary(ops, FLOATS, check)

    def test_pow_and_atan2_are_rounded_and_bounded(self):
        ops = {"pow": (np.power, 9), "atan2": (np.arctan2, 3)}

        def check(op, dtype, a, b, got, bound):
            function, ulps = ops[op]
            expected = function(widen(a, dtype).astype(np.longdouble), widen(b, dtype).astype(np.longdouble))
            self.assert_near(got, bound, expected, dtype, f"{op} {dtype}", ulps + 2)
        self.run_binary(ops, FLOATS, check)

    def test_binary_integer_ops_wrap_like_numpy(self):
        ops = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
               "floordiv": np.floor_divide, "remainder": np.remainder, "bitwise_and": np.bitwise_and,
               "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}

        def check(op, dtype, a, b, got, bound):
            expected = ops[op](a, b)
            if op in ("floordiv", "remainder") and dtype != "u8":  # NumPy may trap the least by -1; written out elsewhere
                expected = np.where((b == -1), 0 - a if op == "floordiv" else 0 * a, expected)
            self.assert_bits(got, bound, expected, dtype, f"{op} {dtype}")
        self.run_binary(ops, INTEGERS, check)

    def test_comparisons_and_logic_of_every_dtype(self):
        ops = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
               "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
               "logical_xor": np.logical_xor}

        def check(op, dtype, a, b, got, bound):
            self.assert_bits(got, bound, ops[op](widen(a, dtype), widen(b, dtype)), "bool", f"{op} {dtype}")
        self.run_binary(ops, ANY, check)

    def test_bool_takes_maximum_minimum_and_bitwise_ops(self):
        ops = {"maximum": np.logical_or, "minimum": np.logical_and, "bitwise_and": np.logical_and,
               "bitwise_or": np.logical_or, "bitwise_xor": np.logical_xor}
        self.run_binary(ops, ["bool"], lambda op, dtype, a, b, got, bound:
                        self.assert_bits(got, bound, ops[op](a, b), "bool", op))

    def test_where_moves_bits(self):
        payloads = np.array([0x7fc01234, 0xffc00001, 0x7f800001, 0x80000000], np.uint32).view(np.float32)
        condition = np.array([[True], [False]])
        (got, bound), = evaluate("  %y = where(%c, %a, %b)", c=("bool", condition), a=("f32", payloads),
                                 b=("f32", payloads[::-1].copy()))
        np.testing.assert_array_equal(bits_of(got), bits_of(np.stack([payloads, payloads[::-1]])))
        self.assertTrue(np.all(bound == 0))

    def test_clamp_takes_either_end_or_both(self):
        for dtype in INTEGERS + FLOATS:
            x = values(dtype, (41,), 5)
            for attrs, low, high in [("min=1", 1, None), ("max=3", None, 3), ("min=1, max=3", 1, 3), ("min=3, max=1", 3, 1)]:
                (got, bound), = evaluate(f"  %y = clamp(%x) {{{attrs}}}", x=(dtype, x))
                expected = widen(x, dtype)
                expected = expected if low is None else np.maximum(expected, np.array(low, expected.dtype))
                expected = expected if high is None else np.minimum(expected, np.array(high, expected.dtype))
                expected = round_as_node(expected, dtype) if dtype in FLOATS else expected
                self.assert_bits(got, bound, expected, dtype, f"clamp {dtype} {attrs}")

    # -- casts ------------------------------------------------------------------------------------------------
    def test_casts_between_all_dtypes(self):
        def expected_cast(x, source, target):
            wide = widen(x, source)
            if target == "bool":
                return wide != 0
            if target in INTEGERS and source in FLOATS:
                info = np.iinfo(STORAGE[target])
                exact = [0 if math.isnan(v) else info.min if v == -math.inf else info.max if v == math.inf
                         else max(info.min, min(info.max, math.trunc(v))) for v in wide.astype(np.float64).ravel()]
                return np.array(exact, STORAGE[target]).reshape(x.shape)
            if target in INTEGERS:
                return wide.astype(STORAGE[target])
            if target == "bf16":
                return bf16_bits(wide.astype(np.float32))
            return wide.astype(STORAGE[target])
        batch, cases = Batch(), []
        for source in ANY:
            for target in ANY:
                x = values(source, (53,), 7)
                cases.append((source, target, x))
                batch.add(f"  %y = cast(%x) {{dtype={target}}}", "%y", x=(source, x))
        for (source, target, x), result in zip(cases, batch.run()):
            self.assert_bits(*result[0], expected_cast(x, source, target), target, f"cast {source} to {target}")

    def test_casts_saturate_and_nan_gives_0(self):
        x = np.array([np.nan, np.inf, -np.inf, 1e10, -1, 1e30, -1e30])
        expected = {"u8": [0, 255, 0, 255, 0, 255, 0], "i8": [0, 127, -128, 127, -1, 127, -128],
                    "i32": [0, 2**31 - 1, -2**31, 2**31 - 1, -1, 2**31 - 1, -2**31],
                    "i64": [0, 2**63 - 1, -2**63, 10**10, -1, 2**63 - 1, -2**63], "bool": [1] * 7}
        for source in ["f32", "f64"]:
            for target, wanted in expected.items():
                (got, bound), = evaluate(f"  %y = cast(%x) {{dtype={target}}}", x=(source, x))
                self.assert_bits(got, bound, wanted, target, f"{source} to {target}")

    def test_a_cast_to_a_half_rounds_once(self):
        # Just above the middle of two neighbours by less than f32 shows: rounded through f32 it would fall to even.
        middle = {"f16": (1 + 2**-11, [0x3c01]), "bf16": (1 + 2**-8, [0x3f81])}
        for dtype, (value, bits) in middle.items():
            (got, bound), = evaluate(f"  %y = cast(%x) {{dtype={dtype}}}", x=("f64", [value + 2**-40]))
            self.assertEqual(list(bits_of(got)), bits, dtype)
        (got, bound), = evaluate("  %y = cast(%x) {dtype=bf16}", x=("i64", [2**40 + 2**32 + 1]))
        self.assertEqual(list(bits_of(got)), [0x5381], "i64 to bf16")

    def test_a_node_of_halves_rounds_through_f32(self):
        # 1 + 2^-11 (a tie in f16) plus 2^-30 is lost in f32; the tie then goes to even.
        (got, bound), = evaluate("  %h = cast(%x) {dtype=f16}\n  %t = cast(%z) {dtype=f16}\n  %y = add(%h, %t)",
                                 x=("f32", [1]), z=("f32", [2**-11]))
        self.assertEqual(list(bits_of(got)), [0x3c00])

    def test_bitcast_keeps_the_bits(self):
        bits = np.array([0x7f800001, 0x80000000, 0x3f800000, 0xffffffff], np.uint32)
        (got, bound), = evaluate("  %y = bitcast(%x) {dtype=f32}", x=("i32", bits.view(np.int32)))
        np.testing.assert_array_equal(bits_of(got), bits)
        self.assertTrue(np.all(bound == 0))

    # -- views, creation, indexing ----------------------------------------------------------------------------
    def check_moves(self, body, expected, x, dtype="f32", returns="%y"):
        results = evaluate(body, returns, x=(dtype, x))
        self.assertNotIsInstance(results, Failure, f"{body}: {results}")
        for (got, bound), wanted in zip(results, expected if isinstance(expected, list) else [expected]):
            np.testing.assert_array_equal(got.shape, wanted.shape, body)
            np.testing.assert_array_equal(bits_of(got), bits_of(np.ascontiguousarray(wanted)), body)
            self.assertTrue(np.all(bound == 0), body)

    def test_views_move_bits_like_numpy(self):
        for dtype in ANY:
            rng = np.random.default_rng(11)
            raw = rng.integers(0, 256, 2 * 3 * 5 * STORAGE[dtype]().itemsize, dtype=np.uint8)  # all bit patterns
            x = (raw & 1 if dtype == "bool" else raw).view(STORAGE[dtype]).reshape(2, 3, 5)
            moves = {"reshape(%x) {shape=[5,-1]}": x.reshape(5, 6), "permute(%x) {dims=[2,0,-2]}": x.transpose(2, 0, 1),
                     "broadcast(%x) {dims=[0,2]}": x[None, :, None], "slice(%x) {starts=[1,0,0], limits=[2,3,5]}": x[1:],
                     "slice(%x) {starts=[0,1,1], limits=[2,3,5], steps=[1,1,3]}": x[:, 1:, 1::3],
                     "slice(%x) {starts=[0,2,0], limits=[2,2,5]}": x[:, 2:2], "cat(%x, %x, %x) {dim=-2}": np.concatenate([x] * 3, 1),
                     "repeat(%x) {times=[2,1,3]}": np.tile(x, (2, 1, 3)), "repeat(%x) {times=[2,1,0,2]}": np.tile(x, (2, 1, 0, 2)),
                     "repeat(%x) {times=[2,3,1,2]}": np.tile(x, (2, 3, 1, 2)), "reverse(%x) {dims=[0,-1]}": x[::-1, :, ::-1],
                     "reverse(%x) {dims=[]}": x}
            for body, expected in moves.items():
                self.check_moves("  %y = " + body, expected, x, dtype)
            self.check_moves("  %a, %b, %c = split(%x) {dim=2, sizes=[1,0,4]}", np.split(x, [1, 1], 2), x, dtype, "%a, %b, %c")

    def test_views_of_sizes_0_and_1_and_rank_0(self):
        x = np.float32(-0.0)
        self.check_moves("  %y = broadcast(%x) {dims=[0]}", np.full((1,), x), x)
        self.check_moves("  %y = expand(%x) {shape=[2,3]}", np.full((2, 3), x), x)
        self.check_moves("  %y = repeat(%x) {times=[3]}", np.full(3, x), x)
        self.check_moves("  %y = squeeze(%x) {dims=[0,-1]}", np.ones(3, np.float32), np.ones((1, 3, 1)))
        self.check_moves("  %y = expand(%x) {shape=[-1,4,3]}", np.ones((2, 4, 3), np.float32), np.ones((2, 1, 3)))
        self.check_moves("  %y = expand(%x) {shape=[0,3]}", np.ones((0, 3), np.float32), np.ones((1, 3)))
        self.check_moves("  %y = reverse(%x) {dims=[0]}", np.ones((0, 3), np.float32), np.ones((0, 3)))
        (got, _), = evaluate("  %y = cat(%a, %b) {dim=0}", a=("f32", np.ones((0, 4))), b=("f32", np.ones((3, 4))))
        np.testing.assert_array_equal(got, np.ones((3, 4)))

    def test_pad_fills_with_the_value_and_moves_the_rest(self):
        x = np.array([[0x80000000, 0x7f812345]], np.uint32).view(np.float32)
        for attr, fill in [("", 0.0), (", value=-0.0", -0.0), (", value=inf", np.inf), (", value=0.1", 0.1)]:
            expected = np.full((2, 5), fill, np.float32)
            bits_of(expected)[1, 1:3] = bits_of(x)
            self.check_moves(f"  %y = pad(%x) {{low=[1,1], high=[0,2]{attr}}}", expected, x)
        self.check_moves("  %y = pad(%x) {low=[2], high=[1], value=7}", np.full(3, 7, np.int8), np.zeros(0), "i8")

    def test_full_iota_and_constant(self):
        for dtype in INTEGERS + FLOATS:
            body = (f"  %f = full() {{shape=[2,2], value=3, dtype={dtype}}}\n  %i = iota() {{shape=[2,3], dim=-1, dtype={dtype}}}\n"
                    f"  %k = constant() {{shape=[3], dtype={dtype}, values=[1,2,100]}}")
            wide = [np.full((2, 2), 3), np.tile(np.arange(3), (2, 1)), np.array([1, 2, 100])]
            for (got, bound), expected in zip(evaluate(body, "%f, %i, %k"), wide):
                expected = round_as_node(expected, dtype) if dtype in FLOATS else expected
                self.assert_bits(got, bound, expected, dtype, f"creation {dtype}")
        (got, _), = evaluate("  %y = constant() {shape=[2], dtype=f16, bits=[0x8000,0x7c01]}")
        self.assertEqual(list(bits_of(got)), [0x8000, 0x7c01])
        (got, _), = evaluate("  %y = full() {shape=[1], value=9223372036854775807, dtype=i64}")
        self.assertEqual(got[0], 2**63 - 1)
        (got, _), = evaluate("  %y = full() {shape=[1], value=0.1, dtype=f16}")
        self.assertEqual(got[0], np.float16(0.1))
        (got, _), = evaluate("  %y = iota() {shape=[300], dim=0, dtype=u8}")
        np.testing.assert_array_equal(got, np.arange(300).astype(np.uint8))

    def test_gather_and_embedding_clamp_what_is_outside(self):
        rng = np.random.default_rng(3)
        table, index = rng.integers(0, 99, (4, 3)).astype(np.int32), np.array([[0, 3, -1], [99, 1, 2]])
        (got, _), = evaluate("  %y = gather(%x, %i) {dim=0}", x=("i32", table), i=("i64", index))
        np.testing.assert_array_equal(got, np.take_along_axis(table, np.clip(index, 0, 3), 0))
        (got, _), = evaluate("  %y = gather(%x, %i) {dim=-1}", x=("i32", table), i=("i32", index))
        np.testing.assert_array_equal(got, np.take_along_axis(table[:2], np.clip(index, 0, 2), 1))
        (got, _), = evaluate("  %y = embedding(%x, %i)", x=("i32", table), i=("i64", index))
        np.testing.assert_array_equal(got, table[np.clip(index, 0, 3)])
        (got, _), = evaluate("  %y = embedding(%x, %i)", x=("i32", table[0]), i=("i64", 2))
        self.assertEqual(got[()], table[0, 2])
        (got, _), = evaluate("  %y = embedding(%x, %i)", x=("i32", np.zeros((0, 3))), i=("i64", np.zeros(0)))
        self.assertEqual(got.shape, (0, 3))
        self.assertIn("INVALID_GRAPH", self.refusal("  %y = embedding(%x, %i)", x=("i32", np.zeros((0, 3))), i=("i64", [1])))

    def refusal(self, body, **inputs):
        try:
            return evaluate(body, **inputs)
        except AssertionError as error:
            return "INVALID_GRAPH " + str(error)

    # -- reductions -------------------------------------------------------------------------------------------
    DIMS = [("", None, (3, 4, 5)), ("dims=[1]", 1, (3, 4, 5)), ("dims=[-1,0], keepdim=true", (0, 2), (3, 4, 5)),
            ("dims=[]", (), (3, 2)), ("dims=[0]", 0, (1,)), ("dims=[0]", 0, (131, 2)), ("dims=[-1]", None, ()), ("dims=[1]", 1, (3, 0))]

    def reduce(self, op, dtype, attrs, x):
        results = evaluate(f"  %y = {op}(%x) {{{attrs}}}" if attrs else f"  %y = {op}(%x)", x=(dtype, x))
        self.assertNotIsInstance(results, Failure, f"{op} {dtype} {attrs}: {results}")
        return results[0]

    def test_sum_mean_prod_var_of_floats(self):
        ops = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "var": lambda x, **k: np.var(x, ddof=1, **k)}
        for op, function in ops.items():
            for dtype in FLOATS:
                for attrs, axis, shape in self.DIMS:
                    x = values(dtype, shape, 4, special=False)
                    if op == "prod":  # or some order overflows on the way, which is undecided
                        x = round_as_node(np.exp(np.clip(widen(x, dtype), -3, 3) / 9), dtype)
                    wide, how = widen(x, dtype).astype(np.longdouble), {"axis": axis, "keepdims": "keepdim" in attrs}
                    expected = function(wide, **how) if axis != () else {"var": wide * np.nan}.get(op, wide)
                    magnitude = function(wide if op == "var" else np.abs(wide), **how)
                    got, bound = self.reduce(op, dtype, attrs, x)
                    self.assert_near(got, bound, expected, dtype, f"{op} {dtype} {attrs} {shape}", 140, np.float64(magnitude))

    def test_sums_that_are_exact_in_every_order_have_no_slack(self):
        for op, expected in [("sum", 5050), ("mean", 50.5)]:
            for dtype in ["f32", "f64"]:
                got, bound = self.reduce(op, dtype, "", np.arange(1, 101))
                self.assertEqual((got[()], bound[()]), (expected, 0))
        got, bound = self.reduce("mean", "f16", "", np.ones(100000))
        self.assertEqual((got[()], bound[()]), (1, 0))
        got, bound = self.reduce("sum", "f32", "", np.full((100, 100, 100), 100))
        self.assertEqual(got[()], 1e8)
        got, bound = self.reduce("mean", "f32", "dims=[0]", np.ones((2000000, 2)))
        self.assertEqual((list(got), list(bound)), ([1, 1], [0, 0]))

    def test_integer_sums_and_products_wrap_at_their_dtype(self):
        for dtype in INTEGERS:
            for attrs, axis, shape in self.DIMS:
                if axis == ():
                    continue
                x = values(dtype, shape, 6)
                for op, function in [("sum", np.sum), ("prod", np.prod)]:
                    got, bound = self.reduce(op, dtype, attrs, x)
                    self.assert_bits(got, bound, function(x, axis=axis, keepdims="keepdim" in attrs, dtype=x.dtype), dtype, op)
        got, _ = self.reduce("sum", "i8", "dtype=i32", np.full(100, 100))
        self.assertEqual(got[()], 10000)
        got, _ = self.reduce("sum", "bool", "dtype=i64", np.ones(7))
        self.assertEqual(got[()], 7)
        got, _ = self.reduce("prod", "i32", "dtype=f32", np.full(20, 10))
        self.assertEqual(got[()], np.float32(1e20))

    def test_amax_amin_argmax_argmin(self):
        for dtype in ANY:
            for attrs, axis, shape in [d for d in self.DIMS if 0 not in d[2] and d[1] != ()]:
                x = values(dtype, shape, 8)
                for op, function in [("amax", np.max), ("amin", np.min)]:
                    got, bound = self.reduce(op, dtype, attrs, x)
                    expected = function(widen(x, dtype), axis=axis, keepdims="keepdim" in attrs)
                    expected = bf16_bits(expected) if dtype == "bf16" else expected
                    self.assert_bits(got, bound, expected, dtype, f"{op} {dtype} {attrs}")
            x = values(dtype, (5, 37), 9)
            for op, function in [("argmax", np.argmax), ("argmin", np.argmin)]:
                for attrs, axis in [("dim=1", 1), ("dim=0, keepdim=true", 0), ("", None)]:
                    got, bound = self.reduce(op, dtype, attrs, x)
                    expected = function(widen(x, dtype), axis=axis)
                    self.assert_bits(got, bound, expected[None] if "keepdim" in attrs else expected, "i64", f"{op} {dtype}")
        got, bound = self.reduce("argmin", "f32", "dim=1", np.zeros((0, 3)))
        self.assertEqual((got.shape, got.dtype), ((0,), np.int64))

    def test_argmax_tells_large_integers_apart(self):
        got, _ = self.reduce("argmax", "i64", "", np.array([2**60, 2**60 + 1, 2**60]))
        self.assertEqual(got[()], 1)

    def test_any_and_all(self):
        for dtype in ANY:
            for x in [np.zeros(0), np.zeros(3), np.ones(3), np.array([0, 1, 0])] + ([np.array([0, np.nan])] if dtype in FLOATS else []):
                x = round_as_node(x, dtype) if dtype in FLOATS else x
                for op, function in [("any", np.any), ("all", np.all)]:
                    got, bound = self.reduce(op, dtype, "", x)
                    self.assert_bits(got, bound, function(widen(x, dtype)), "bool", f"{op} {dtype} {x}")

    def test_reductions_of_nothing(self):
        for op, expected in [("sum", 0), ("prod", 1), ("mean", np.nan), ("var", np.nan)]:
            got, bound = self.reduce(op, "f32", "dims=[0]", np.zeros((3, 0)).T)
            self.assert_bits(got, bound, np.full(3, expected), "f32", op)

    def test_var_with_other_corrections(self):
        x = np.array([1.0, 2, 4, 8])
        for correction, expected in [(0, 7.1875), (1, 28.75 / 3), (2, 14.375), (4, np.inf), (5, np.inf)]:
            got, bound = self.reduce("var", "f64", f"correction={correction}.0", x)
            self.assertEqual(got[()], expected, correction)
            self.assertLess(bound[()], 1e-13)
        got, bound = self.reduce("var", "f32", "", np.ones(1))
        self.assertTrue(np.isnan(got[()]) and bound[()] == ANY_FORM)

    # -- normalizations ---------------------------------------------------------------------------------------
    def test_softmax_and_log_softmax(self):
        for dtype in FLOATS:
            for dim, shape in [(0, (7,)), (1, (3, 33)), (0, (5, 2)), (-2, (2, 130, 3)), (0, ()), (1, (0, 4)), (1, (4, 0)), (1, (4, 1))]:
                x = values(dtype, shape, 12, special=False)
                wide, axis = widen(x, dtype).astype(np.longdouble), dim if shape else None
                shifted = wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
                log_sum = np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
                for op, expected, scale in [("softmax", np.exp(shifted - log_sum), None), ("log_softmax", shifted - log_sum, 1 + np.abs(shifted))]:
                    got, bound = evaluate(f"  %y = {op}(%x) {{dim={dim}}}", x=(dtype, x))[0]
                    self.assert_near(got, bound, expected, dtype, f"{op} {dtype} {shape}", 120, scale if scale is None else scale.astype(np.float64))

    def test_softmax_of_extreme_rows(self):
        rows = np.array([[-np.inf, -np.inf, 2], [1e4, 1e4, 1e4], [-1e4, 0, 1e4], [np.nan, 0, 1], [np.inf, 0, 1], [-np.inf] * 3])
        nan = [np.nan] * 3
        for dtype in FLOATS:
            got, bound = evaluate("  %y = softmax(%x) {dim=1}", x=(dtype, round_as_node(rows, dtype)))[0]
            expected = np.array([[0, 0, 1], [1 / 3] * 3, [0, 0, 1], nan, nan, nan])
            self.assert_near(got, bound, expected, dtype, f"softmax {dtype}", 40)
            self.assertTrue(np.all(bound[0, :2] == 0), "exp(-inf) is 0 and nothing else")
            got, bound = evaluate("  %y = log_softmax(%x) {dim=1}", x=(dtype, round_as_node(rows, dtype)))[0]
            ten4 = float(widen(round_as_node(np.float64(1e4), dtype), dtype))
            expected = np.array([[-np.inf, -np.inf, 0], [-math.log(3)] * 3, [-2 * ten4, -ten4, 0], nan, nan, nan])
            self.assert_near(got, bound, expected, dtype, f"log_softmax {dtype}", 3000)
            self.assertFalse(np.any(np.isinf(bound)))

    def normalized(self, x, count, gamma, beta, eps, rms=False):
        axes = tuple(range(x.ndim - count, x.ndim))
        centred = x if rms else x - x.mean(axis=axes, keepdims=True)
        y = centred / np.sqrt(np.mean(centred**2, axis=axes, keepdims=True) + np.longdouble(eps))
        return y * (1 if gamma is None else gamma) + (0 if beta is None else beta)

    def test_layernorm_rmsnorm_and_layernorm_sigmoid_mul(self):
        for dtype in FLOATS:
            for shape, count in [((4, 64), 1), ((3, 125), 1), ((2, 3, 5, 4), 2), ((1, 1), 1), ((1, 0), 1), ((0, 3), 1), ((6,), 1)]:
                for has_gamma, has_beta in [(True, True), (True, False), (False, True), (False, False)]:
                    self.check_normalizations(dtype, shape, count, has_gamma, has_beta)

    def check_normalizations(self, dtype, shape, count, has_gamma, has_beta):
        tail = shape[len(shape) - count:]
        arrays = {name: values(dtype, size, seed, special=False) for name, size, seed in [("x", shape, 1), ("g", tail, 2), ("b", tail, 3)]}
        x, g, b = (widen(arrays[name], dtype).astype(np.longdouble) for name in "xgb")
        g, b = g if has_gamma else None, b if has_beta else None
        inputs = {name: (dtype, array) for name, array in arrays.items()}
        attrs = f"{{normalized_shape=[{','.join(map(str, tail))}], eps=1e-3}}"
        operands = f"%x, {'%g' if has_gamma else 'none'}, {'%b' if has_beta else 'none'}"
        rms = f"%x, {'%g' if has_gamma else 'none'}"
        results = evaluate(f"  %p = layernorm({operands}) {attrs}\n  %q = layernorm_sigmoid_mul({operands}) {attrs}\n"
                           f"  %r = rmsnorm({rms}) {attrs}", "%p, %q, %r", **inputs)
        layernorm = self.normalized(x, count, g, b, 1e-3)
        scale = np.float64(10 * (1 + (0 if g is None else np.abs(g)) + (0 if b is None else np.abs(b))))
        expected = [layernorm, x / (1 + np.exp(-layernorm)), self.normalized(x, count, g, None, 1e-3, True)]
        for (got, bound), wanted, size in zip(results, expected, [scale, scale * np.float64(1 + np.abs(x)), scale]):
            self.assert_near(got, bound, wanted, dtype, f"normalization {dtype} {shape} {has_gamma} {has_beta}", 120, size)

    def test_a_row_of_equal_values_normalizes_to_beta(self):
        for dtype in ["f16", "f32"]:
            x, beta = np.full((2, 2048), 3.0), round_as_node(np.linspace(-1, 1, 2048), dtype)
            got, bound = evaluate("  %y = layernorm(%x, none, %b) {normalized_shape=[2048], eps=1e-12}", x=(dtype, x), b=(dtype, beta))[0]
            self.assert_bits(got, bound, np.stack([beta, beta]), dtype, "equal rows")

    def test_wide_halves_of_large_values_normalize_to_finite_values(self):
        x = np.where(np.arange(2048) % 3, 200.0, -200.0)[None]
        for op, operands in [("layernorm", "%x, none, none"), ("rmsnorm", "%x, none")]:
            got, bound = evaluate(f"  %y = {op}({operands}) {{normalized_shape=[2048], eps=1e-5}}", x=("f16", x))[0]
            self.assert_near(got, bound, self.normalized(x.astype(np.longdouble), 1, None, None, 1e-5, op == "rmsnorm"), "f16", op, 120)

    # -- contractions -----------------------------------------------------------------------------------------
    def test_gemm_rcr_and_its_epilogues(self):
        for dtype in FLOATS:
            for a_shape, n in [((4, 33), 5), ((2, 3, 16), 7), ((1, 1), 1), ((3, 0), 2), ((0, 4), 3), ((3, 4), 0)]:
                a, b, bias = (values(dtype, shape, seed, special=False) for shape, seed in [(a_shape, 1), ((n, a_shape[-1]), 2), ((n,), 3)])
                results = evaluate("  %p = gemm_rcr(%a, %b) {alpha=0.25}\n  %q = gemm_rcr_bias(%a, %b, %c)\n"
                                   "  %r = gemm_rcr_bias_relu(%a, %b, %c) {alpha=-1.5}\n  %s = gemm_rcr_bias_sigmoid(%a, %b, %c)",
                                   "%p, %q, %r, %s", a=(dtype, a), b=(dtype, b), c=(dtype, bias))
                wide = [widen(v, dtype).astype(np.longdouble) for v in (a, b, bias)]
                product, size = wide[0] @ wide[1].T, np.abs(wide[0]) @ np.abs(wide[1]).T + np.abs(wide[2])
                expected = [product / 4, product + wide[2], np.maximum(-1.5 * product + wide[2], 0), 1 / (1 + np.exp(-product - wide[2]))]
                for (got, bound), wanted in zip(results, expected):
                    self.assert_near(got, bound, wanted, dtype, f"gemm {dtype} {a_shape} {n}", 100, 2 * size.astype(np.float64) + 1)

    def test_matmul_follows_the_rule_of_numpy(self):
        pairs = [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
                 ((3,), (2, 3, 4)), ((2, 4, 3), (3,)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((4, 1, 3), (4, 3, 1))]
        for a_shape, b_shape in pairs:
            for dtype in INTEGERS:
                a, b = values(dtype, a_shape, 1), values(dtype, b_shape, 2)
                got, bound = evaluate("  %y = matmul(%a, %b)", a=(dtype, a), b=(dtype, b))[0]
                self.assert_bits(got, bound, np.matmul(a, b), dtype, f"matmul {dtype} {a_shape} {b_shape}")
            for dtype in FLOATS:
                a, b = values(dtype, a_shape, 1, special=False), values(dtype, b_shape, 2, special=False)
                wide = [widen(v, dtype).astype(np.longdouble) for v in (a, b)]
                got, bound = evaluate("  %y = matmul(%a, %b)", a=(dtype, a), b=(dtype, b))[0]
                size = np.matmul(np.abs(wide[0]), np.abs(wide[1])).astype(np.float64)
                self.assert_near(got, bound, np.matmul(*wide), dtype, f"matmul {dtype} {a_shape} {b_shape}", 20, size)

    def test_contractions_of_small_integers_in_floats_are_exact(self):
        rng = np.random.default_rng(5)
        a, b = rng.integers(-8, 9, (9, 200)), rng.integers(-8, 9, (11, 200))
        for dtype in FLOATS:
            got, bound = evaluate("  %y = gemm_rcr(%a, %b) {out=f32}", a=(dtype, round_as_node(a, dtype)), b=(dtype, round_as_node(b, dtype)))[0]
            self.assert_bits(got, bound, (a @ b.T).astype(np.float32), "f32", f"gemm of integers in {dtype}")

    def test_integer_contractions_accumulate_in_the_dtype_of_the_result(self):
        a, b = np.full((1, 5), 100), np.full((2, 5), 100)
        got, _ = evaluate("  %y = gemm_rcr(%a, %b) {out=i32}", a=("i8", a), b=("i8", b))[0]
        self.assertEqual(got.tolist(), [[50000, 50000]])
        got, _ = evaluate("  %y = gemm_rcr_bias_relu(%a, %b, %c) {alpha=-1.0}", a=("i8", a), b=("i8", b), c=("i8", [7, -128]))[0]
        self.assertEqual(got.tolist(), [[max(0, v) for v in np.array([-50000 + 7, -50000 - 128]).astype(np.int8).tolist()]])

    # -- the table "Numbers" ----------------------------------------------------------------------------------
    def test_nan_propagates_through_relu_clamp_maximum_minimum_and_amax(self):
        nan, inf = np.nan, np.inf
        x, y = np.array([-3, nan, -1, 0, 1, 2, nan]), np.array([0, 0, nan, 0, 0, 0, 0])
        expected = {"relu(%x)": [0, nan, 0, 0, 1, 2, nan], "clamp(%x) {min=0.5, max=inf}": [.5, nan, .5, .5, 1, 2, nan],
                    "maximum(%x, %y)": [0, nan, nan, 0, 1, 2, nan], "minimum(%x, %y)": [-3, nan, nan, 0, 0, 0, nan],
                    "clamp(%x) {min=nan}": [nan] * 7, "clamp(%x) {min=0.5, max=nan}": [nan] * 7,
                    "amax(%x)": nan, "amin(%y)": nan}
        for dtype in ["f16", "f32"]:
            for body, wanted in expected.items():
                got, bound = evaluate(f"  %y1 = {body}", "%y1", x=(dtype, x), y=(dtype, y))[0]
                self.assert_bits(got, bound, wanted, dtype, f"{body} {dtype}")
        self.assertEqual(inf, math.inf)

    def test_floordiv_and_remainder_round_to_minus_infinity(self):
        a, b = [-7, 7, -7, 7, -1, 1, -5, 5], [2, 2, -2, -2, 3, -3, 3, -3]
        for dtype in ["i8", "i32", "i64"] + FLOATS:
            x, y = (round_as_node(np.array(v), dtype) for v in (a, b))
            (q, _), (r, _) = evaluate("  %q = floordiv(%a, %b)\n  %r = remainder(%a, %b)", "%q, %r", a=(dtype, x), b=(dtype, y))
            self.assertEqual(widen(q, dtype).tolist(), [-4, 3, 3, -4, -1, -1, -2, -2], dtype)
            self.assertEqual(widen(r, dtype).tolist(), [1, 1, -1, -1, 2, -2, 1, -1], dtype)

    def test_division_by_zero_and_of_the_least_integer_is_defined(self):
        for dtype in ["i8", "i32", "i64"]:
            least = int(np.iinfo(STORAGE[dtype]).min)
            a, b = [7, -7, 0, least, least], [0, 0, 0, 0, -1]
            (q, _), (r, _) = evaluate("  %q = floordiv(%a, %b)\n  %r = remainder(%a, %b)", "%q, %r", a=(dtype, a), b=(dtype, b))
            self.assertEqual((q.tolist(), r.tolist()), ([0, 0, 0, 0, least], [0] * 5), dtype)
        (q, _), (r, _) = evaluate("  %q = floordiv(%a, %b)\n  %r = remainder(%a, %b)", "%q, %r", a=("f32", [7, -7, 0]), b=("f32", [0] * 3))
        np.testing.assert_array_equal(q, [np.inf, -np.inf, np.nan])
        np.testing.assert_array_equal(r, [np.nan] * 3)

    def test_shifts_past_the_width_give_0_or_the_sign(self):
        for dtype in INTEGERS:
            width, most = 8 * STORAGE[dtype]().itemsize, int(np.iinfo(STORAGE[dtype]).max)
            a, b = [1, 1, most, most] + ([] if dtype == "u8" else [-1, -8, -8, 5]), [width - 1, width, 1, width + 9] + ([] if dtype == "u8" else [1, 1, width, -1])
            (left, _), (right, _) = evaluate("  %l = shift_left(%a, %b)\n  %r = shift_right(%a, %b)", "%l, %r", a=(dtype, a), b=(dtype, b))
            wrap = lambda v: np.array([v % 2**width], np.uint64).astype(STORAGE[dtype])[0]
            self.assertEqual(left.tolist()[:4], [wrap(1 << (width - 1)), 0, wrap(most << 1), 0], dtype)
            self.assertEqual(right.tolist()[:4], [0, 0, most >> 1, 0], dtype)
            if dtype != "u8":
                self.assertEqual((left.tolist()[4:], right.tolist()[4:]), ([-2, -16, 0, 0], [-1, -4, -1, 0]), dtype)

    def test_integer_pow_wraps_and_negative_exponents_cut_to_0(self):
        a, b = [2, 2, -3, 3, 1, -1, -1, 2, 0, 0, 7], [6, 8, 3, 7, -5, -5, -4, -1, 0, -1, 100]
        got, _ = evaluate("  %y = pow(%a, %b)", a=("i8", a), b=("i8", b))[0]
        self.assertEqual(got.tolist(), [64, 0, -27, (3**7 + 128) % 256 - 128, 1, -1, 1, 0, 1, 0, (7**100 + 128) % 256 - 128])

    def test_denormals_are_kept(self):
        for value in [1e-40, -1e-45, 1.17549435e-38]:
            got, bound = evaluate("  %one = full() {shape=[1], value=1, dtype=f32}\n  %y = mul(%x, %one)", x=("f32", [value]))[0]
            self.assertEqual((got[0], bound[0]), (np.float32(value), 0))
        got, _ = evaluate("  %y = add(%x, %x)", x=("f16", [6e-8]))[0]
        self.assertEqual(list(bits_of(got)), [2])

    def test_halves_overflow_to_infinity_past_the_middle_of_the_gap(self):
        got, _ = evaluate("  %y = cast(%x) {dtype=f16}", x=("f32", [65519.996, 65520, -65520]))[0]
        np.testing.assert_array_equal(got, np.array([65504, np.inf, -np.inf], np.float16))
        got, _ = evaluate("  %y = mul(%x, %x)", x=("f16", [255, 256, 300]))[0]
        np.testing.assert_array_equal(got, np.array([65024, np.inf, np.inf], np.float16))

    # -- symbols and limits -----------------------------------------------------------------------------------
    def test_symbols_come_from_the_shapes_of_the_inputs(self):
        batch = Batch()
        batch.add("  %y = reshape(%x) {shape=[2*T]}", "%y", x=("f32", np.ones((2, 3))))
        batch.texts[0] = batch.texts[0].replace("g0(", "g0[T](").replace("[2,3]", "[2,T]")
        self.assertEqual(batch.run()[0][0][0].shape, (6,))

    def test_a_limit_on_memory_is_kept(self):
        batch = Batch()
        batch.add("  %y = expand(%x) {shape=[1000,1000,1000,1000]}", "%y", x=("f32", np.ones(1)))
        batch.add("  %a = expand(%x) {shape=[1000]}\n  %y = exp(%a)", "%y", x=("f32", np.ones(1)))
        self.assertTrue(batch.run()[0].startswith("TOO_LARGE"))
        self.assertTrue(batch.run(limit_bytes=15000)[1].startswith("TOO_LARGE"), "4000 + 4000 + 8000 bytes")
        self.assertNotIsInstance(batch.run(limit_bytes=16000)[1], Failure)

    def test_intermediate_values_go_after_their_last_use(self):
        body = "\n".join(["  %t0 = expand(%x) {shape=[1000]}"] + [f"  %t{i + 1} = neg(%t{i})" for i in range(200)])
        batch = Batch()
        batch.add(body, "%t200", x=("f32", np.ones(1)))
        self.assertNotIsInstance(batch.run(limit_bytes=12000)[0], Failure)


if __name__ == "__main__":
    unittest.main()
