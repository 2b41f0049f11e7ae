"""Kernels that come out unfit are planned once more, through the socket: the daemon is told by a fault point that a
kernel spilled registers or compiled slowly. Labels: release-only"""
import unittest

import numpy as np

from daemon import Daemon, Error
from test_daemon_compile import array, tensor

CHAIN = """graph chain(%x: f32[100]) {
  %a = neg(%x)
  %b = abs(%a)
  %c = sqrt(%b)
  %d = floor(%c)
  return %d
}
"""
X = np.linspace(-9, 9, 100, dtype=np.float32)


class LateVerdicts(unittest.TestCase):
    def serve(self, *arguments, faults=None, folder=None):
        daemon = Daemon("--workers", "1", *arguments, faults=faults, folder=folder)
        self.addCleanup(daemon.close)
        client = daemon.connect()
        self.addCleanup(client.close)
        return daemon, client

    def expect_values(self, client, launches):
        result = client.call("execute", graph=CHAIN, inputs=[tensor(X)])
        np.testing.assert_array_equal(array(result["outputs"][0]), np.floor(np.sqrt(np.abs(X))))
        self.assertEqual(result["launches"], launches)

    def expect_divided(self, told, why):
        self.assertEqual(len(told["launches"]), 2)
        (boundary,) = told["boundaries"]
        self.assertIn(why, boundary["reason"])
        self.assertIn(why, told["groups"][1]["reason"])

    def test_a_kernel_that_spills_is_divided_and_explain_says_so(self):
        _, client = self.serve(faults="kernel_spills:1:128")
        told = client.call("explain", graph=CHAIN)
        self.expect_divided(told, "spilled 128 bytes of registers")
        self.assertEqual(told["kernels"]["compiled"], 3)  # the one that spilled, and its halves
        self.assertEqual(client.call("stats")["counters"]["late_verdicts"], 1)
        self.expect_values(client, 2)

    def test_a_kernel_that_compiles_slowly_is_divided(self):
        _, client = self.serve("--slow-compile", "20", faults="kernel_slow:1:20000")
        self.expect_divided(client.call("explain", graph=CHAIN), "took more than 20 s to compile")
        self.expect_values(client, 2)

    def test_a_kernel_whose_compile_is_stopped_is_divided(self):
        _, client = self.serve()
        source = client.call("explain", graph=CHAIN)["sources"][0]["source"]
        _, client = self.serve("--compile-timeout", "2", faults=f"kernel_hang:-1:{len(source.encode()) - 1}")
        self.expect_divided(client.call("explain", graph=CHAIN), "compile was stopped after 2 s")
        self.expect_values(client, 2)

    def test_a_kernel_of_one_node_whose_compile_is_stopped_fails_once(self):
        _, client = self.serve("--compile-timeout", "2", faults="kernel_hang:-1:0")
        with self.assertRaises(Error) as caught:
            client.call("compile", graph="graph g(%x: f32[100]) {\n  %y = neg(%x)\n  return %y\n}\n")
        self.assertEqual(caught.exception.code, "COMPILE_TIMEOUT")
        self.assertEqual(client.call("stats")["counters"]["worker_kills"], 1)

    def test_no_limit_means_no_verdict_on_time(self):
        _, client = self.serve("--slow-compile", "0", faults="kernel_slow:-1:90000")
        self.assertEqual(len(client.call("explain", graph=CHAIN)["launches"]), 1)

    def test_what_is_one_node_stands_and_rounds_are_bounded(self):
        _, client = self.serve(faults="kernel_spills:-1:8")
        one = client.call("explain", graph="graph g(%x: f32[100]) {\n  %y = neg(%x)\n  return %y\n}\n")
        self.assertEqual(len(one["launches"]), 1)
        self.assertEqual(one["launches"][0]["spill_bytes"], 8)
        nodes = "".join(f"  %t{i + 1} = {'exp' if i % 2 else 'sin'}(%t{i})\n" for i in range(64))
        many = client.call("explain", graph=f"graph g(%t0: f32[64]) {{\n{nodes}  return %t64\n}}\n")
        self.assertEqual(len(many["launches"]), 16)  # four rounds, each in halves
        self.expect_values(client, 4)

    def test_the_verdict_is_kept_with_the_plan(self):
        daemon, client = self.serve(faults="kernel_spills:1:64")
        key = client.call("compile", graph=CHAIN)["key"]
        again = client.call("explain", graph=CHAIN)
        self.assertEqual((again["cache"], again["kernels"]["compiled"]), ("memory", 0))
        self.expect_divided(again, "spilled 64 bytes")
        daemon.stop()
        _, client = self.serve(folder=daemon.folder)
        stored = client.call("explain", graph=CHAIN)
        self.assertEqual((stored["key"], stored["cache"], stored["kernels"]["compiled"]), (key, "disk", 0))
        self.expect_divided(stored, "spilled 64 bytes")
        counters = client.call("stats")["counters"]
        self.assertEqual((counters["plans_compiled"], counters["late_verdicts"]), (0, 0))
        self.expect_values(client, 2)


if __name__ == "__main__":
    unittest.main()
