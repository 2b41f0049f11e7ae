"""The decoder layer of examples/ against NumPy: launches, and values in f32, bf16 and f16.

In bf16 the reference evaluator leaves most elements of so deep a graph undecided. So the same text runs in f32 too,
where every element must be near a double-precision model written here, and in the halves the error as a whole must be
what their roundings explain.
Labels: release-only (the sanitized emulator takes minutes)
"""
import tempfile
import unittest
from pathlib import Path

import numpy as np
from kiln_command import ROOT, run_local, statistics
from kiln_reference import bf16_bits, widen

EXAMPLE = ROOT / "examples/decoder_layer_small.kiln"
LAUNCHES = 10
WIDTH, QKV, HEADS, HIDDEN = 64, 192, 128, 96


def inputs_of(batch, length, rng):
    def normal(*shape, scale=1.0):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    position = np.arange(length, dtype=np.float32)[:, None]
    return {"x": normal(batch, length, WIDTH), "freqs": position * np.array([1.0, 0.01], np.float32),
            "norm1": 1 + normal(WIDTH, scale=0.1), "norm2": 1 + normal(WIDTH, scale=0.1),
            "w_qkv": normal(QKV, WIDTH, scale=0.125), "w_out": normal(WIDTH, HEADS, scale=0.09),
            "w_gate": normal(HIDDEN, WIDTH, scale=0.125), "w_up": normal(HIDDEN, WIDTH, scale=0.125),
            "w_down": normal(WIDTH, HIDDEN, scale=0.1)}


def rms_norm(x, gamma):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gamma


def rotate(x, angles):
    low, high = np.split(x, 2, axis=-1)
    return x * np.cos(angles) + np.concatenate([-high, low], axis=-1) * np.sin(angles)


def attend(q, k, v):
    """32 query heads in 8 groups of 4 that share a key-value head; causal."""
    batch, heads, length, width = q.shape
    scores = q.reshape(batch, 8, 4, length, width) @ k[:, :, None].swapaxes(-1, -2) / np.sqrt(width)
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v[:, :, None]).reshape(batch, heads, length, width)


def model(given):
    """The layer in doubles."""
    a = {name: array.astype(np.float64) for name, array in given.items()}
    batch, length, _ = a["x"].shape
    q, k, v = np.split(rms_norm(a["x"], a["norm1"]) @ a["w_qkv"].T, [128, 160], axis=-1)
    q, k, v = (part.reshape(batch, length, -1, 4).swapaxes(1, 2) for part in (q, k, v))
    angles = np.concatenate([a["freqs"], a["freqs"]], axis=-1)
    mixed = attend(rotate(q, angles), rotate(k, angles), v)
    y = a["x"] + mixed.swapaxes(1, 2).reshape(batch, length, HEADS) @ a["w_out"].T
    h = rms_norm(y, a["norm2"])
    gate = h @ a["w_gate"].T
    return y + (gate / (1 + np.exp(-gate)) * (h @ a["w_up"].T)) @ a["w_down"].T


class DecoderLayer(unittest.TestCase):
    def run_as(self, dtype, batch, length):
        """The results in the dtype and in doubles from the same inputs, rounded to the dtype."""
        given = inputs_of(batch, length, np.random.default_rng([batch, length]))
        stored = dict(given)
        for name in given:
            if name != "freqs" and dtype != "f32":
                stored[name] = bf16_bits(given[name]) if dtype == "bf16" else given[name].astype(np.float16)
                given[name] = widen(stored[name], dtype)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "layer.kiln")
            path.write_text(EXAMPLE.read_text().replace("bf16", dtype))
            got = run_local(path, stored)["out"]
        return widen(got, dtype).astype(np.float64), model(given)

    def test_takes_its_launches(self):
        for name in ("decoder_layer_small.kiln", "decoder_layer.kiln"):
            self.assertLessEqual(statistics(ROOT / "examples" / name)["launches"], LAUNCHES)

    def test_every_element_is_right_in_f32(self):
        for batch, length in ((2, 24), (1, 1), (3, 17)):
            with self.subTest(batch=batch, length=length):
                got, expected = self.run_as("f32", batch, length)
                np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)

    def test_halves_are_as_far_off_as_their_roundings(self):
        for dtype, unit in (("bf16", 2.0 ** -8), ("f16", 2.0 ** -11)):
            for batch, length in ((2, 24), (1, 1)):
                with self.subTest(dtype=dtype, batch=batch, length=length):
                    got, expected = self.run_as(dtype, batch, length)
                    error = np.sqrt(np.mean((got - expected) ** 2) / np.mean(expected ** 2))
                    self.assertLess(error, 2 * unit)
                    self.assertGreater(error, unit / 16)
                    np.testing.assert_allclose(got, expected, rtol=12 * unit, atol=12 * unit)


if __name__ == "__main__":
    unittest.main()
