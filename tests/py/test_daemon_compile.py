"""Compiling and executing through the socket: caches, single flight, symbols, failures, order."""
import hashlib
import os
import signal
import tempfile
import time
import unittest

import numpy as np

from daemon import BUILD, SLOW, Daemon, Error

ROPE = """# Rotary table of a decoder layer.
graph rope_table[T](%freqs: f32[T,4], %x: f16[1,2,T,8]) {
  %emb  = cat(%freqs, %freqs) {dim=1}
  %cos  = cos(%emb)
  %cosh = cast(%cos) {dtype=f16}
  %b    = broadcast(%cosh) {dims=[0,1]}
  %y    = mul(%x, %b) : f16[1,2,T,8]
  return %y
}
"""


def unary(op, size, count=1):
    """A graph of its own for each size: nothing of it is cached yet."""
    lines = "".join(f"  %t{i + 1} = {op}(%t{i})\n" for i in range(count))
    return f"graph g(%t0: f32[{size}]) {{\n{lines}  return %t{count}\n}}\n"


def tensor(array):
    names = {"float32": "f32", "float16": "f16", "int32": "i32", "int64": "i64", "uint8": "u8", "int8": "i8",
             "float64": "f64", "bool": "bool"}
    return {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data": array.tobytes()}


def array(output):
    types = {"f32": "f4", "f16": "f2", "i32": "i4", "i64": "i8", "u8": "u1", "i8": "i1", "f64": "f8", "bool": "?"}
    return np.frombuffer(output["data"], types[output["dtype"]]).reshape(output["shape"])


class CompileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def setUp(self):
        self.client = self.daemon.connect()
        self.addCleanup(self.client.close)

    def counters(self):
        return self.client.call("stats")["counters"]

    def test_a_compile_then_executions_give_the_right_values(self):
        x = np.linspace(-2, 2, 33, dtype=np.float32)
        compiled = self.client.call("compile", graph=unary("abs", 33))
        self.assertEqual((compiled["cache"], compiled["kernels"]), ("compiled", {"found": 0, "compiled": 1}))
        result = self.client.call("execute", executable=compiled["executable"], inputs=[tensor(x)])
        np.testing.assert_array_equal(array(result["outputs"][0]), np.abs(x))
        self.assertEqual((result["key"], result["cache"], result["launches"]), (compiled["key"], "memory", 1))

    def test_other_names_and_node_order_are_a_memory_hit_with_the_same_key(self):
        first = "graph a(%x: f32[7], %y: f32[7]) {\n %s = neg(%x)\n %t = abs(%y)\n %r = add(%s, %t)\n return %r\n}\n"
        second = "graph b(%p: f32[7], %q: f32[7]) {\n %u = abs(%q)\n %v = neg(%p)\n %w = add(%v, %u)\n return %w\n}\n"
        one, two = self.client.call("compile", graph=first), self.client.call("compile", graph=second)
        self.assertEqual((one["key"], two["cache"], two["kernels"]["compiled"]), (two["key"], "memory", 0))

    def test_another_option_is_another_key(self):
        graph = unary("neg", 11, 2)
        keys = {self.client.call("compile", graph=graph, options=options)["key"]
                for options in ({}, {"precision": "excess"}, {"unfused": True}, {"allow_tf32": True})}
        self.assertEqual(len(keys), 4)

    def test_one_session_has_one_handle_per_graph(self):
        graph = unary("neg", 12)
        self.assertEqual(self.client.call("compile", graph=graph)["executable"],
                         self.client.call("compile", graph=graph)["executable"])

    def test_a_symbol_executed_for_many_values_compiles_a_handful(self):
        before = self.counters()["plans_compiled"]
        for t in range(1, 65):
            freqs = np.random.default_rng(t).normal(size=(t, 4)).astype(np.float32)
            x = np.ones((1, 2, t, 8), np.float16)
            result = self.client.call("execute", graph=ROPE, inputs=[tensor(freqs), tensor(x)])
            wanted = np.cos(np.concatenate([freqs, freqs], 1)).astype(np.float16)
            np.testing.assert_allclose(array(result["outputs"][0])[0, 1], wanted, rtol=2e-3, atol=1e-3)
        self.assertLessEqual(self.counters()["plans_compiled"] - before, 5)

    def test_symbols_that_do_not_fit_are_named(self):
        inputs = [tensor(np.ones((3, 4), np.float32)), tensor(np.ones((1, 2, 5, 8), np.float16))]
        with self.assertRaises(Error) as caught:
            self.client.call("execute", graph=ROPE, inputs=inputs)
        self.assertEqual((caught.exception.code, caught.exception.detail["field"]), ("INVALID_ARGUMENT", "inputs[1]"))
        inputs[1] = tensor(np.ones((1, 2, 3, 8), np.float16))
        with self.assertRaises(Error) as caught:
            self.client.call("execute", graph=ROPE, inputs=inputs, symbols={"T": 4})
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")

    def test_fifty_clients_with_one_new_graph_are_exactly_one_compile(self):
        before = self.counters()
        clients = [self.daemon.connect() for _ in range(50)]
        graph = unary("exp", 77)
        requests = [client.send("compile", graph=graph) for client in clients]
        keys = {client.wait(request)["key"] for client, request in zip(clients, requests)}
        after = self.counters()
        self.assertEqual(len(keys), 1)
        self.assertEqual(after["plans_compiled"] - before["plans_compiled"], 1)
        self.assertEqual(after["kernels_compiled"] - before["kernels_compiled"], 1)
        for client in clients:
            client.close()

    def test_progress_is_told_when_asked_and_carries_the_request(self):
        self.client.call("compile", graph=unary("exp", 78))
        self.assertEqual(self.client.notifications, [])
        request = self.client.send("compile", graph=unary("exp", 79), progress=True)
        self.client.wait(request)
        told = [parameters[0] for name, parameters in self.client.notifications if name == "progress"]
        self.assertEqual([(t["id"], t["stage"]) for t in told], [(request, "planning")] + [(request, "kernels")] * 2)
        self.assertEqual((told[-1]["done"], told[-1]["total"]), (1, 1))

    def test_a_graph_that_no_compiler_takes_fails_again_at_once(self):
        graph = "graph g(%x: f32[3,4]) {\n  %y = topk(%x)\n  return %y\n}\n"
        with self.assertRaises(Error) as caught:
            self.client.call("compile", graph=graph)
        self.assertEqual(caught.exception.code, "UNSUPPORTED")
        self.assertIn("topk", caught.exception.message)

    def test_executions_of_a_session_take_effect_in_order_while_others_are_served(self):
        known = unary("neg", 5)
        x = np.arange(5, dtype=np.float32)
        self.client.call("compile", graph=known)
        slow = self.client.send("execute", graph=unary("tanh", 5, 200), inputs=[tensor(x)])
        quick = self.client.send("execute", graph=known, inputs=[tensor(x)])
        other = self.daemon.connect()
        other.call("execute", graph=known, inputs=[tensor(x)])
        order = [self.client.receive()[1] for _ in range(2)]
        self.assertEqual(order, [slow, quick])
        other.close()

    def test_an_execution_that_fails_does_not_hold_back_the_next(self):
        x = np.arange(5, dtype=np.float32)
        bad = self.client.send("execute", graph=unary("neg", 6), inputs=[tensor(x)])
        good = self.client.send("execute", graph=unary("neg", 5), inputs=[tensor(x)])
        with self.assertRaises(Error):
            self.client.wait(bad)
        np.testing.assert_array_equal(array(self.client.wait(good)["outputs"][0]), -x)

    def test_rank_0_and_size_0_tensors_are_executed(self):
        scalar = "graph g(%x: f32[]) {\n  %y = neg(%x)\n  return %y\n}\n"
        result = self.client.call("execute", graph=scalar, inputs=[tensor(np.float32(2.5).reshape(()))])
        self.assertEqual((result["outputs"][0]["shape"], array(result["outputs"][0]).item()), ([], -2.5))
        empty = unary("neg", 0)
        result = self.client.call("execute", graph=empty, inputs=[tensor(np.zeros(0, np.float32))])
        self.assertEqual((result["outputs"][0]["shape"], result["outputs"][0]["data"]), ([0], b""))

    def test_declared_strides_are_the_storage_of_inputs_and_outputs(self):
        graph = ("graph g(%x: f32[2,3] strides [1,2]) {\n  %y = neg(%x)\n"
                 "  return %y strides [1,2]\n}\n")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        given = {"dtype": "f32", "shape": [2, 3], "strides": [1, 2], "data": x.T.tobytes()}
        output = self.client.call("execute", graph=graph, inputs=[given])["outputs"][0]
        self.assertEqual(output["strides"], [1, 2])
        np.testing.assert_array_equal(np.frombuffer(output["data"], np.float32).reshape(3, 2).T, -x)
        given["strides"] = [3, 1]
        with self.assertRaises(Error) as caught:
            self.client.call("execute", graph=graph, inputs=[given])
        self.assertEqual(caught.exception.detail["field"], "inputs[0].strides")

    def test_large_tensors_go_through_whole(self):
        x = np.random.default_rng(1).normal(size=3 << 20).astype(np.float32)
        result = self.client.call("execute", graph=unary("neg", x.size), inputs=[tensor(x)])
        np.testing.assert_array_equal(array(result["outputs"][0]), -x)

    def test_a_graph_without_inputs_is_executed(self):
        graph = "graph g() {\n  %y = full() {shape=[3], value=2.5, dtype=f32}\n  return %y\n}\n"
        result = self.client.call("execute", graph=graph)
        np.testing.assert_array_equal(array(result["outputs"][0]), np.full(3, 2.5, np.float32))

    def test_counters_of_the_emulated_device_come_when_asked(self):
        x = np.zeros(1024, np.float32)
        result = self.client.call("execute", graph=unary("neg", 1024), inputs=[tensor(x)], counters=True)
        self.assertIn("launches", result["counters"])
        self.assertNotIn("counters", self.client.call("execute", graph=unary("neg", 1024), inputs=[tensor(x)]))

    def test_artifacts_for_targets_are_cubins_with_their_ptx(self):
        result = self.client.call("compile", graph=unary("neg", 13), targets=["sm_80", "sm_90"], artifacts=True)
        self.assertEqual([a["target"] for a in result["artifacts"]], ["sm_80", "sm_90"])
        self.assertEqual(result["key"], result["artifacts"][0]["key"])
        self.assertNotEqual(result["artifacts"][0]["key"], result["artifacts"][1]["key"])
        for artifact in result["artifacts"]:
            kernel = artifact["kernels"][0]
            self.assertEqual((kernel["kind"], kernel["arch"], kernel["image"][:4]), ("cubin", artifact["target"], b"\x7fELF"))
            self.assertIn(".version", kernel["ptx"])
            self.assertGreater(kernel["registers"], 0)

    def test_explain_tells_passes_groups_sources_and_key(self):
        told = self.client.call("explain", graph=ROPE)
        self.assertIn("repetition", [p["name"] for p in told["passes"]])
        self.assertEqual(told["repetitions"], 1)
        self.assertEqual(len(told["launches"]), len(told["groups"]))
        self.assertEqual(told["sources"][0]["key"], told["launches"][0]["kernel"])
        self.assertIn("__global__", told["sources"][0]["source"])
        self.assertEqual(set(told["key_parts"]), {"graph", "target", "compiler", "fingerprint", "options", "symbols"})
        again = self.client.call("explain", graph=ROPE)
        self.assertEqual((again["cache"], again["miss"], again["key"]), ("memory", "", told["key"]))

    def test_a_deadline_that_passes_ends_its_request_only(self):
        graph = unary("tanh", 17, 300)
        start = time.monotonic()
        slow = self.client.send("compile", graph=graph)
        with self.assertRaises(Error) as caught:
            self.client.call("compile", graph=graph, deadline_ms=30)
        self.assertEqual((caught.exception.code, caught.exception.retry), ("DEADLINE_EXCEEDED", True))
        self.assertLess(time.monotonic() - start, 0.5 * SLOW)
        self.assertEqual(self.client.wait(slow)["cache"], "compiled")

    def test_a_cancelled_request_gets_its_one_reply(self):
        slow = self.client.send("compile", graph=unary("tanh", 18, 300))
        self.assertEqual(self.client.call("cancel", id=slow), {"cancelled": True})
        with self.assertRaises(Error) as caught:
            self.client.wait(slow)
        self.assertEqual(caught.exception.code, "CANCELLED")

    def test_clients_that_leave_during_their_compile_delay_nobody(self):
        for i in range(20):
            client = self.daemon.connect()
            client.send("compile", graph=unary("tanh", 1000 + i, 100))
            client.close()
        self.client.call("compile", graph=unary("neg", 19))
        deadline = time.monotonic() + 20 * SLOW
        while self.client.call("stats")["queue"]["compiles"] and time.monotonic() < deadline:
            time.sleep(0.05)
        counters = self.counters()
        self.assertGreater(counters["flights_dropped"], 0)

    def test_one_request_is_served_beside_a_flood_of_another_client(self):
        flood = self.daemon.connect()
        requests = [flood.send("compile", graph=unary("tanh", 2000 + i, 20)) for i in range(40)]
        self.client.call("compile", graph=unary("neg", 20))
        self.assertGreater(self.client.call("stats")["queue"]["compiles"], 5)
        for request in requests:
            flood.wait(request)
        flood.close()

    def test_a_large_graph_is_parsed_beside_the_loop(self):
        request = self.client.send("compile", graph=unary("neg", 21, 20000))
        other = self.daemon.connect()
        worst = 0
        for _ in range(20):
            start = time.monotonic()
            other.call("health")
            worst = max(worst, time.monotonic() - start)
        self.assertLess(worst, 0.3 * SLOW)
        self.client.wait(request)
        other.close()

    def test_structured_graphs_compile_to_the_key_of_their_text(self):
        form = {"name": "g", "inputs": [{"dtype": "f32", "shape": [22]}], "nodes": [{"op": "neg", "in": [0]}],
                "outputs": [{"value": 1}]}
        self.assertEqual(self.client.call("compile", graph=form)["key"],
                         self.client.call("compile", graph=unary("neg", 22))["key"])


class RestartTest(unittest.TestCase):
    def test_a_restarted_daemon_finds_plan_and_kernels_on_disk(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        client = daemon.connect()
        key = client.call("compile", graph=unary("neg", 31))["key"]
        client.close()
        self.assertEqual(daemon.stop(), 0)
        daemon.start()
        client = daemon.connect()
        again = client.call("compile", graph=unary("neg", 31))
        self.assertEqual((again["key"], again["cache"], again["kernels"]), (key, "disk", {"found": 1, "compiled": 0}))
        self.assertEqual(client.call("compile", graph=unary("abs", 31))["cache"], "compiled")
        client.close()

    def entries(self, daemon):
        """The files of the cache, whichever they are."""
        return [path for path in daemon.cache.glob("v1/*/*") if path.is_file()]

    def compile_and_stop(self, graph):
        """A stopped daemon with one plan and one kernel on disk."""
        daemon = Daemon()
        self.addCleanup(daemon.close)
        client = daemon.connect()
        client.call("compile", graph=graph)
        client.close()
        daemon.stop()
        return daemon

    def test_an_entry_that_is_whole_but_does_not_load_is_compiled_again_once(self):
        graph, x = unary("neg", 34), np.arange(34, dtype=np.float32)
        daemon = self.compile_and_stop(graph)
        spoilt = 0
        for path in self.entries(daemon):
            entry = path.read_bytes()
            body = entry[104:].replace(b".visible .entry", b".visible .enter")
            if body != entry[104:]:
                checksum = hashlib.sha256(entry[8:24] + body).digest()
                path.chmod(0o600)
                path.write_bytes(entry[:24] + checksum + entry[56:104] + body)
                spoilt += 1
        self.assertEqual(spoilt, 1)
        daemon.start()
        client = daemon.connect()
        result = client.call("execute", graph=graph, inputs=[tensor(x)])
        np.testing.assert_array_equal(array(result["outputs"][0]), -x)
        counters = client.call("stats")["counters"]
        self.assertEqual((counters["images_rejected"], counters["kernels_compiled"]), (1, 1))
        client.close()

    def test_damaged_entries_are_misses_and_are_replaced(self):
        graph, x = unary("neg", 35), np.arange(35, dtype=np.float32)
        daemon = self.compile_and_stop(graph)
        for damage in (lambda b: b"", lambda b: b[:1], lambda b: b[:-1], lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:]):
            for path in self.entries(daemon):
                path.chmod(0o600)
                path.write_bytes(damage(path.read_bytes()))
            daemon.start()
            client = daemon.connect()
            result = client.call("execute", graph=graph, inputs=[tensor(x)])
            np.testing.assert_array_equal(array(result["outputs"][0]), -x)
            self.assertEqual(result["cache"], "compiled")
            client.close()
            self.assertEqual(daemon.stop(), 0)

    def test_two_daemons_on_one_folder_compile_once(self):
        first = Daemon()
        self.addCleanup(first.close)
        second = Daemon("--cache-dir", str(first.cache))
        self.addCleanup(second.close)
        clients = [first.connect(), second.connect()]
        for client in clients:  # both compilers are up
            client.call("compile", graph=unary("neg", 32))
        requests = [client.send("compile", graph=unary("tanh", 32, 50)) for client in clients]
        tiers = [client.wait(request)["cache"] for client, request in zip(clients, requests)]
        self.assertEqual(sorted(tiers), ["compiled", "disk"])
        for client in clients:
            client.close()

    def test_a_cache_folder_that_cannot_be_made_is_done_without(self):
        daemon = Daemon("--cache-dir", "/proc/no/such")
        self.addCleanup(daemon.close)
        client = daemon.connect()
        self.assertEqual(client.call("compile", graph=unary("neg", 33))["cache"], "compiled")
        client.close()
        self.assertEqual(daemon.log().count(" warning: "), 1)


class FailingWorkerTest(unittest.TestCase):
    def serve(self, *arguments, **options):
        daemon = Daemon(*arguments, **options)
        self.addCleanup(daemon.close)
        client = daemon.connect()
        self.addCleanup(client.close)
        return daemon, client

    def fails(self, client, code, graph):
        with self.assertRaises(Error) as caught:
            client.call("compile", graph=graph)
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def test_a_worker_that_crashes_twice_is_a_failed_compile_remembered_for_a_while(self):
        _, client = self.serve(faults="worker_crash:-1")
        self.fails(client, "COMPILE_FAILED", unary("neg", 41))
        starts = client.call("stats")["counters"]["worker_starts"]
        self.assertEqual(starts, 2)
        self.fails(client, "COMPILE_FAILED", unary("neg", 41))
        counters = client.call("stats")["counters"]
        self.assertEqual((counters["worker_starts"] - starts, counters["failures_remembered"]), (0, 1))

    def test_a_worker_killed_in_the_middle_of_a_compile_is_retried(self):
        daemon, client = self.serve(faults="worker_hang:1:1500")
        request = client.send("compile", graph=unary("neg", 42))
        deadline = time.monotonic() + 10 * SLOW
        while not any(w["state"] == "busy" for w in client.call("stats")["workers"]):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        os.kill(daemon.children("worker")[0], signal.SIGKILL)
        self.assertEqual(client.wait(request)["cache"], "compiled")
        self.assertEqual(client.call("stats")["counters"]["worker_deaths"], 1)

    def test_a_compile_that_hangs_is_killed_and_the_next_is_served(self):
        _, client = self.serve("--compile-timeout", str(1 * SLOW), "--workers", "1", faults="worker_hang:1:60000")
        start = time.monotonic()
        error = self.fails(client, "COMPILE_TIMEOUT", unary("neg", 43))
        self.assertTrue(error.retry)
        self.assertLess(time.monotonic() - start, 4 * SLOW)
        counters = client.call("stats")["counters"]
        self.assertEqual(counters["worker_kills"], 1)
        self.assertTrue(client.call("health")["live"])

    @unittest.skipIf(SLOW > 1, "sanitizers' shadow memory would count as the worker's")
    def test_a_compile_that_eats_memory_ends_with_its_worker(self):
        _, client = self.serve("--compile-memory", "512MiB", faults="worker_eat_memory:-1")
        self.fails(client, "COMPILE_FAILED", unary("neg", 44))
        self.assertTrue(client.call("health")["live"])

    def test_no_compiler_is_unavailable_in_one_line(self):
        _, client = self.serve(environment={"KILN_NVRTC": "/nowhere/libnvrtc.so"})
        error = self.fails(client, "UNAVAILABLE", unary("neg", 45))
        self.assertIn("/nowhere/libnvrtc.so", error.message)
        self.assertNotIn("\n", error.message)
        self.assertTrue(client.call("health")["ready"])

    def test_too_many_compiles_are_overloaded(self):
        _, client = self.serve("--max-queued-compiles", "4", "--workers", "1", faults="worker_hang:-1:200")
        requests = [client.send("compile", graph=unary("neg", 100 + i)) for i in range(12)]
        codes = []
        for request in requests:
            try:
                client.wait(request)
                codes.append("ok")
            except Error as error:
                codes.append(error.code)
        self.assertEqual(codes.count("OVERLOADED"), 8)
        self.assertEqual(codes.count("ok"), 4)

    def test_a_higher_priority_is_compiled_first(self):
        _, client = self.serve("--workers", "1", faults="worker_hang:-1:100")
        client.call("compile", graph=unary("neg", 200))
        low = [client.send("compile", graph=unary("neg", 201 + i)) for i in range(4)]
        high = client.send("compile", graph=unary("neg", 300), priority=10)
        order = [client.receive()[1] for _ in range(5)]
        self.assertLess(order.index(high), order.index(low[-1]))


class LostDeviceTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)
        self.client = self.daemon.connect()
        self.addCleanup(self.client.close)

    def test_executables_live_on_when_the_device_process_is_killed(self):
        x = np.arange(51, dtype=np.float32)
        handle = self.client.call("compile", graph=unary("neg", 51))["executable"]
        for _ in range(3):
            os.kill(self.daemon.children("device")[0], signal.SIGKILL)
            self.wait_for_restart()
            result = self.client.call("execute", executable=handle, inputs=[tensor(x)])
            np.testing.assert_array_equal(array(result["outputs"][0]), -x)
        stats = self.client.call("stats")
        self.assertEqual((stats["devices"][0]["restarts"], stats["counters"]["plans_compiled"]), (3, 1))

    def wait_for_restart(self):
        deadline = time.monotonic() + 20 * SLOW
        restarts = self.client.call("stats")["devices"][0]["restarts"]
        while True:
            device = self.client.call("stats")["devices"][0]
            if device["state"] == "ready" and len(self.daemon.children("device")) == 1:
                return
            self.assertLess(time.monotonic(), deadline, f"after {restarts} restarts")
            time.sleep(0.02)

    def test_what_the_device_had_is_lost_and_may_be_retried(self):
        self.daemon.close()
        self.daemon = Daemon(faults="device_crash:-1")
        self.addCleanup(self.daemon.close)
        client = self.daemon.connect()
        with self.assertRaises(Error) as caught:
            client.call("execute", graph=unary("neg", 52), inputs=[tensor(np.zeros(52, np.float32))])
        self.assertEqual((caught.exception.code, caught.exception.retry), ("DEVICE_LOST", True))
        self.assertTrue(client.call("health")["live"])
        client.close()

    def test_a_device_that_cannot_be_opened_is_unavailable_and_says_why(self):
        daemon = Daemon(environment={"KILN_EMU_LIBRARY": "/nowhere/libkiln-emu.so"})
        self.addCleanup(daemon.close)
        client = daemon.connect()
        with self.assertRaises(Error) as caught:
            client.call("execute", graph=unary("neg", 53), inputs=[tensor(np.zeros(53, np.float32))])
        self.assertEqual(caught.exception.code, "UNAVAILABLE")
        self.assertIn("libkiln-emu", caught.exception.message)
        self.assertEqual(client.call("health")["devices"][0]["state"], "lost")
        client.close()


class ExecutionTimeout(unittest.TestCase):
    """On a driver that kilnd takes for a GPU's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.symlink(BUILD / "lib/libkiln-emu.so", f"{folder.name}/libcuda.so.1")
        self.daemon = Daemon("--device", "cuda", "--execution-timeout", str(SLOW),
                             environment={"LD_LIBRARY_PATH": folder.name})
        self.addCleanup(self.daemon.close)
        self.client = self.daemon.connect()
        self.addCleanup(self.client.close)

    def execute(self, graph, *inputs):
        return self.client.send("execute", graph=graph, inputs=list(map(tensor, inputs)), device=1)

    def test_an_execution_past_its_limit_ends_the_process_and_the_next_one_runs(self):
        endless = "graph g(%a: f32[2048,2048], %b: f32[2048,2048]) {\n  %y = gemm_rcr(%a, %b)\n  return %y\n}\n"
        ones = np.ones((2048, 2048), np.float32)
        x = np.linspace(-1, 1, 9, dtype=np.float32)
        self.client.call("compile", graph=endless, device=1)
        slow, behind = self.execute(endless, ones, ones), self.execute(unary("neg", 9), x)
        with self.assertRaises(Error) as caught:
            self.client.wait(slow)
        self.assertEqual((caught.exception.code, caught.exception.retry), ("DEVICE_LOST", True))
        self.assertIn("took longer than", caught.exception.message)
        try:  # it was with the device, or not yet
            self.client.wait(behind)
        except Error as lost:
            self.assertEqual(lost.code, "DEVICE_LOST")
            self.assertNotIn("took longer than", lost.message)
        np.testing.assert_array_equal(array(self.client.wait(self.execute(unary("neg", 9), x))["outputs"][0]), -x)
        counters = self.client.call("stats")["counters"]
        self.assertEqual((counters["device_kills"], counters["device_deaths"]), (1, 1))


class MemoryTest(unittest.TestCase):
    @unittest.skipIf(SLOW > 1, "sanitizers use memory of their own")
    def test_an_idle_daemon_has_less_than_30_mb_of_private_memory(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        client = daemon.connect()
        client.call("hello")
        self.assertLess(daemon.private_bytes(), 30e6)
        client.close()

    @unittest.skipIf(SLOW > 1, "sanitizers keep freed memory")
    def test_many_different_graphs_leave_bounded_memory(self):
        daemon = Daemon("--memory-cache-size", "256KiB")
        self.addCleanup(daemon.close)
        x = tensor(np.zeros(1, np.float32))
        for i in range(60):
            client = daemon.connect()
            client.call("execute", graph=unary("neg", 1, 1 + i), inputs=[x])
            client.close()
        client = daemon.connect()
        cache = client.call("stats")["memory_cache"]
        self.assertLessEqual(cache["bytes"], 256 << 10)
        self.assertLess(cache["entries"], 120)
        self.assertEqual(client.call("execute", graph=unary("neg", 1, 1), inputs=[x])["cache"], "disk")
        client.close()


if __name__ == "__main__":
    unittest.main()
