"""What a client may send: hostile bytes, wrong fields, limits, and who is affected."""
import os
import resource
import socket
import struct
import time
import unittest

import msgpack

from daemon import SLOW, Client, Daemon, Error

ADD = "graph f(%x: f32[4]) {\n  %y = add(%x, %x)\n  return %y\n}\n"


def tensor(values, dtype="f32"):
    code = {"f32": "f", "i64": "q", "u8": "B"}[dtype]
    return {"dtype": dtype, "shape": [len(values)], "data": struct.pack(f"<{len(values)}{code}", *values)}


class ProtocolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--max-message", "1MiB", "--idle-timeout", "1")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def setUp(self):
        self.client = self.daemon.connect()
        self.addCleanup(self.client.close)

    def refused(self, data, code="PROTOCOL_ERROR"):
        """The bytes get one error with nil as id, the connection closes, others are served."""
        with self.subTest(data=data[:8].hex()):
            client = self.daemon.connect()
            messages = client.raw(data)
            self.assertEqual([(m[0], m[1], m[2]["code"], m[3]) for m in messages], [(1, None, code, None)])
            client.close()
            self.assertTrue(self.client.call("health")["live"])

    def fails(self, code, field, method, **fields):
        with self.subTest(method=method, **fields):
            with self.assertRaises(Error) as caught:
                self.client.call(method, **fields)
            self.assertEqual((caught.exception.code, caught.exception.detail.get("field")), (code, field))

    def test_hostile_bytes_are_refused_and_close_their_connection_only(self):
        self.refused(b"\xdd\xff\x00\x00\x00")  # an array of 4 billion
        self.refused(b"\xdf\xff\x00\x00\x00")  # a map of 4 billion
        self.refused(b"\xdc\xff\xff" * 24000)
        self.refused(b"\x91" * 10000)
        self.refused(b"\xc1")  # never used
        self.refused(msgpack.packb(7))
        self.refused(msgpack.packb([]))
        self.refused(msgpack.packb([0, 1, "health"]))
        self.refused(msgpack.packb([0, -1, "health", []]))
        self.refused(msgpack.packb([0, "one", "health", []]))
        self.refused(msgpack.packb([3, 1, "health", []]))
        self.refused(msgpack.packb([1, 1, None, {}]))

    def test_a_method_that_is_no_string_is_answered_under_its_id(self):
        messages = self.client.raw(msgpack.packb([0, 9, 17, []]))
        self.assertEqual([(m[1], m[2]["code"]) for m in messages], [(9, "PROTOCOL_ERROR")])

    def test_a_message_at_the_limit_is_served_and_one_byte_more_is_too_large(self):
        def message(size):
            head = msgpack.packb([0, 1, "health", [{"progress": False, "x": ""}]])
            return msgpack.packb([0, 1, "health", [{"progress": False, "x": "a" * (size - len(head) - 4)}]])
        limit = 1 << 20
        self.assertEqual(len(message(limit)), limit)
        for size in (limit - 1, limit):
            client = self.daemon.connect()
            client.socket.sendall(message(size))
            self.assertEqual(client.receive()[2]["code"], "INVALID_ARGUMENT")  # read whole: 'x' is no field
            client.close()
        self.refused(message(limit + 1), "TOO_LARGE")

    def test_a_message_in_one_byte_writes_is_served(self):
        for byte in msgpack.packb([0, 1, "health", []]):
            self.client.socket.sendall(bytes([byte]))
        self.assertEqual(self.client.receive()[:3], [1, 1, None])

    def test_several_messages_in_one_write_are_all_served(self):
        self.client.socket.sendall(b"".join(msgpack.packb([0, i, "health", []]) for i in range(1, 101)))
        self.assertEqual([self.client.receive()[1] for _ in range(100)], list(range(1, 101)))

    def test_a_message_that_is_not_continued_is_closed_after_the_idle_limit(self):
        start = time.monotonic()
        self.assertEqual(self.client.raw(b"\x94\x00"), [])
        self.assertLess(time.monotonic() - start, 5 * SLOW)

    def test_a_silent_client_delays_nobody_and_is_not_closed(self):
        silent = self.daemon.connect()
        time.sleep(1.5)
        start = time.monotonic()
        self.client.call("health")
        self.assertLess(time.monotonic() - start, 0.5 * SLOW)
        self.assertTrue(silent.call("health")["live"])
        silent.close()

    def test_notifications_are_ignored(self):
        self.client.socket.sendall(msgpack.packb([2, "health", []]))
        self.assertTrue(self.client.call("health")["live"])

    def test_all_shapes_of_no_params_are_taken(self):
        for params in ([], [[]], [{}], [None]):
            self.client.socket.sendall(msgpack.packb([0, 77, "health", params]))
            self.assertEqual(self.client.receive()[:3], [1, 77, None])

    def test_other_shapes_of_params_are_invalid_arguments(self):
        for params in ({}, None, 7, "", [{}, {}], [7], [[1]]):
            self.client.socket.sendall(msgpack.packb([0, 77, "health", params]))
            error = self.client.receive()[2]
            self.assertEqual((error["code"], error["detail"]["field"]), ("INVALID_ARGUMENT", "params"))

    def test_an_unknown_method_is_unsupported_and_named(self):
        with self.assertRaises(Error) as caught:
            self.client.call("segment.attach")
        self.assertEqual(caught.exception.code, "UNSUPPORTED")
        self.assertIn("segment.attach", caught.exception.message)

    def test_protocol_ranges_that_do_not_meet_are_refused(self):
        self.assertEqual(self.client.call("hello", protocol=[1, 3])["protocol"], 1)
        self.fails("UNSUPPORTED", None, "hello", protocol=[2, 3])
        self.fails("INVALID_ARGUMENT", "protocol", "hello", protocol=[3, 1])
        self.fails("INVALID_ARGUMENT", "protocol", "hello", protocol=[1])
        self.fails("INVALID_ARGUMENT", "protocol[0]", "hello", protocol=["1", 2])

    def test_every_wrong_common_field_is_named(self):
        for value in (0, -1, 1 << 63, 86400001, 1.5, "1", [], {}, True):
            self.fails("INVALID_ARGUMENT", "deadline_ms", "health", deadline_ms=value)
        for value in (-101, 101, float("nan"), "high"):
            self.fails("INVALID_ARGUMENT", "priority", "health", priority=value)
        for value in (-1, 1 << 40, "gpu"):
            self.fails("INVALID_ARGUMENT", "device", "health", device=value)
        self.fails("INVALID_ARGUMENT", "progress", "health", progress=1)
        self.fails("INVALID_ARGUMENT", "color", "health", color="red")

    def test_every_wrong_field_of_compile_is_named(self):
        self.fails("INVALID_ARGUMENT", "graph", "compile")
        for value in (7, [], True, b"graph"):
            self.fails("INVALID_ARGUMENT", "graph", "compile", graph=value)
        self.fails("INVALID_ARGUMENT", "name", "compile", graph=ADD, name=7)
        self.fails("NOT_FOUND", None, "compile", graph=ADD, name="g")
        self.fails("INVALID_ARGUMENT", "name", "compile", graph=ADD + ADD.replace("f(", "g("))
        self.fails("INVALID_ARGUMENT", "options", "compile", graph=ADD, options=1)
        self.fails("INVALID_ARGUMENT", "options.precision", "compile", graph=ADD, options={"precision": "some"})
        self.fails("INVALID_ARGUMENT", "options.speed", "compile", graph=ADD, options={"speed": 1})
        self.fails("INVALID_ARGUMENT", "options.unfused", "compile", graph=ADD, options={"unfused": "no"})
        for value in ("sm_90", [], ["sm_90"] * 9, {}):
            self.fails("INVALID_ARGUMENT", "targets", "compile", graph=ADD, targets=value)
        self.fails("INVALID_ARGUMENT", "targets[0]", "compile", graph=ADD, targets=[90])
        self.fails("UNSUPPORTED", "targets[0]", "compile", graph=ADD, targets=["sm_1"])
        self.fails("INVALID_ARGUMENT", "symbols", "compile", graph=ADD, symbols=[])
        self.fails("INVALID_ARGUMENT", "symbols.T", "compile", graph=ADD, symbols={"T": 1})
        self.fails("INVALID_ARGUMENT", "artifacts", "compile", graph=ADD, artifacts="yes")
        self.fails("NOT_FOUND", "device", "compile", graph=ADD, device=1)

    def test_every_wrong_field_of_execute_is_named(self):
        good = tensor([1, 2, 3, 4])

        def with_(**changes):
            return {key: value for key, value in {**good, **changes}.items() if value is not None}
        self.fails("INVALID_ARGUMENT", "executable", "execute", inputs=[good])
        self.fails("INVALID_ARGUMENT", "executable", "execute", graph=ADD, executable=1, inputs=[good])
        for value in (0, -1, 1 << 53, "1"):
            self.fails("INVALID_ARGUMENT", "executable", "execute", executable=value, inputs=[good])
        self.fails("NOT_FOUND", None, "execute", executable=1, inputs=[good])
        for inputs in ([], [good, good], {}, 7):
            self.fails("INVALID_ARGUMENT", "inputs", "execute", graph=ADD, inputs=inputs)
        self.fails("INVALID_ARGUMENT", "inputs", "execute", graph=ADD)
        self.fails("INVALID_ARGUMENT", "inputs[0]", "execute", graph=ADD, inputs=[1])
        for field, value in (("dtype", None), ("dtype", "f33"), ("dtype", 3), ("shape", None), ("shape", 4),
                             ("shape", [1] * 9), ("strides", [1, 1]), ("strides", 1), ("data", None), ("data", 1),
                             ("data", b""), ("data", good["data"] + b"0"), ("where", "here"), ("strides", [2])):
            self.fails("INVALID_ARGUMENT", f"inputs[0].{field}", "execute", graph=ADD, inputs=[with_(**{field: value})])
        for value in (-1, 1 << 63, 4.0, float("nan"), "4"):
            self.fails("INVALID_ARGUMENT", "inputs[0].shape[0]", "execute", graph=ADD, inputs=[with_(shape=[value])])
        for changes in ({"shape": [5]}, {"shape": [2, 2]}, {"dtype": "i32"}):
            self.fails("INVALID_ARGUMENT", "inputs[0]", "execute", graph=ADD, inputs=[with_(**changes)])
        self.fails("UNSUPPORTED", "inputs[0].buffer", "execute", graph=ADD, inputs=[with_(buffer=1, data=None)])
        self.fails("INVALID_ARGUMENT", "counters", "execute", graph=ADD, inputs=[good], counters=1)

    def test_every_wrong_field_of_cancel_is_named(self):
        self.fails("INVALID_ARGUMENT", "id", "cancel")
        for value in (-1, 1 << 53, "1"):
            self.fails("INVALID_ARGUMENT", "id", "cancel", id=value)
        self.assertEqual(self.client.call("cancel", id=12345), {"cancelled": False})

    def test_a_wrong_graph_is_told_with_its_place(self):
        with self.assertRaises(Error) as caught:
            self.client.call("compile", graph="graph f(%x: f32[4]) {\n  %y = add(%x)\n  return %y\n}\n")
        self.assertEqual(caught.exception.code, "INVALID_GRAPH")
        self.assertEqual(caught.exception.detail["line"], "2")

    def test_a_handle_of_another_session_is_not_found(self):
        handle = self.client.call("compile", graph=ADD)["executable"]
        other = self.daemon.connect()
        with self.assertRaises(Error) as caught:
            other.call("execute", executable=handle, inputs=[tensor([1, 2, 3, 4])])
        self.assertEqual(caught.exception.code, "NOT_FOUND")
        other.close()

    def test_error_texts_name_no_path(self):
        for method, fields in (("compile", {"graph": "graph"}), ("execute", {"executable": 5}), ("nothing", {})):
            with self.assertRaises(Error) as caught:
                self.client.call(method, **fields)
            self.assertNotIn(str(self.daemon.folder), caught.exception.message)

    def test_a_client_that_does_not_read_is_cut_off_alone(self):
        stuck = self.daemon.connect()
        stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        graph = "graph f(%x: f32[1]) {\n  %y = expand(%x) {shape=[200000]}\n  return %y\n}\n"
        for _ in range(20):
            stuck.send("execute", graph=graph, inputs=[tensor([1])])
        deadline = time.monotonic() + 20 * SLOW
        while self.client.call("stats")["counters"]["sessions_cut"] == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertGreater(self.client.call("stats")["counters"]["sessions_cut"], 0)
        stuck.close()

    def test_a_thousand_connections_are_served(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        clients = [Client(self.daemon.socket) for _ in range(1000)]
        for client in clients:
            client.send("health")
        for client in clients:
            self.assertTrue(client.wait(1)["live"])
            client.close()

    def test_more_requests_than_a_session_may_have_are_overloaded(self):
        request = msgpack.packb
        flood = b"".join(request([0, i, "compile", [{"graph": ADD.replace("4", str(5000 + i))}]]) for i in range(1, 400))
        self.client.socket.sendall(flood)
        codes = [self.client.receive()[2] for _ in range(399)]
        refused = [code for code in codes if code is not None]
        self.assertTrue(refused)
        self.assertEqual({(code["code"], code["retry"]) for code in refused}, {("OVERLOADED", True)})

    def test_two_requests_under_one_id_are_not_both_taken(self):
        graph = ADD.replace("4", "4711")
        message = msgpack.packb([0, 5, "compile", [{"graph": graph}]])
        self.client.socket.sendall(message + message)
        errors = [self.client.receive()[2] for _ in range(2)]
        self.assertEqual([error and error["detail"]["field"] for error in sorted(errors, key=bool)], [None, "id"])


class ManyDescriptorsTest(unittest.TestCase):
    @staticmethod
    def cpu_s(pid):
        """Processor time of a process so far."""
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_a_daemon_without_descriptors_left_serves_who_is_there_and_recovers(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        client = daemon.connect()
        server = daemon.children("server")[0]
        used = len(os.listdir(f"/proc/{server}/fd"))
        os.system(f"prlimit --pid {server} --nofile={used + 8}")
        others = [daemon.connect() for _ in range(20)]
        self.assertTrue(client.call("health")["live"])
        used_s = self.cpu_s(server)
        time.sleep(1)
        self.assertLess(self.cpu_s(server) - used_s, 0.5)  # it does not spin on who waits
        for other in others:
            other.close()
        time.sleep(0.2)
        late = daemon.connect(timeout_s=5)
        self.assertTrue(late.call("health")["live"])
        late.close()
        client.close()


if __name__ == "__main__":
    unittest.main()
