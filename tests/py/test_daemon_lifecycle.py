"""Starting, ending and dying: the supervisor, its socket, its options."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from daemon import BUILD, SLOW, Daemon, Error

KILND = BUILD / "bin/kilnd"
NEG = "graph g(%x: f32[9]) {\n  %y = neg(%x)\n  return %y\n}\n"


def run(*arguments, **environment):
    """kilnd that should end by itself: exit status and what it said."""
    done = subprocess.run([KILND, *arguments], capture_output=True, text=True, timeout=20 * SLOW, check=False,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stdout + done.stderr


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition, timeout_s=10):
    deadline = time.monotonic() + timeout_s * SLOW
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)


class OptionsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kiln-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_help_and_version_are_printed(self):
        status, text = run("--help")
        self.assertEqual(status, 0)
        for option in ("--listen", "--device", "--cache-size", "--drain-timeout", "--config"):
            self.assertIn(option, text)
        status, text = run("--version")
        self.assertEqual((status, text.split()[0]), (0, "kilnd"))

    def test_misuse_exits_2_with_one_line(self):
        for arguments in (["--color"], ["here"], ["--workers"], ["--workers", "many"], ["--cache-size", "-1"],
                          ["--cache-size", "1XB"], ["--drain-timeout", "soon"], ["--log-format", "xml"],
                          ["--listen", "tcp:127.0.0.1:1"], ["--listen", "here"], ["--config", "/nowhere"],
                          ["--max-message", "1"]):
            with self.subTest(arguments=arguments):
                status, text = run(*arguments, XDG_RUNTIME_DIR=str(self.folder))
                self.assertEqual((status, text.count("\n")), (2, 1), text)

    def test_tcp_is_refused_clearly(self):
        self.assertIn("not supported in this version", run("--listen", "tcp:127.0.0.1:1")[1])

    def test_a_configuration_file_gives_options_and_the_command_line_counts_more(self):
        file = self.folder / "kiln.conf"
        file.write_text("# for tests\nmax-message = 64KiB\n\nlog-format = json\nworkers = 3\n")
        daemon = Daemon("--config", str(file))
        self.addCleanup(daemon.close)
        client = daemon.connect()
        self.assertEqual(client.call("hello")["limits"]["max_message"], 64 << 10)
        self.assertEqual(len(client.call("stats")["workers"]), 2)
        self.assertTrue(daemon.log().startswith("{"))
        client.close()

    def test_a_wrong_line_of_a_configuration_file_is_named(self):
        file = self.folder / "kiln.conf"
        for line in ("colour = red", "workers", "workers = x"):
            file.write_text(f"\n{line}\n")
            status, text = run("--config", str(file))
            self.assertEqual(status, 2)
            self.assertIn("kiln.conf:2", text)


class SocketTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="kiln-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def refused(self, path, *said):
        status, text = run("--listen", f"unix:{path}", "--device", "emulated")
        self.assertEqual(status, 1, text)
        for words in said:
            self.assertIn(words, text)

    def test_a_second_daemon_exits_1_naming_the_first(self):
        daemon = Daemon(folder=str(self.folder))
        self.addCleanup(daemon.close)
        self.refused(daemon.socket, f"process {daemon.process.pid}")
        client = daemon.connect()
        self.assertTrue(client.call("health")["live"])
        client.close()

    def test_a_stale_socket_is_replaced(self):
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(self.folder / "kiln.sock"))
        stale.close()
        daemon = Daemon(folder=str(self.folder))
        daemon.close()

    def test_a_file_in_the_place_of_the_socket_is_left_alone(self):
        (self.folder / "kiln.sock").write_text("precious")
        self.refused(self.folder / "kiln.sock", "is no socket")
        self.assertEqual((self.folder / "kiln.sock").read_text(), "precious")

    def test_a_folder_open_to_others_or_a_link_is_refused(self):
        self.folder.chmod(0o755)
        self.refused(self.folder / "kiln.sock", "0700")
        self.folder.chmod(0o700)
        link = self.folder / "link"
        (self.folder / "real").mkdir(mode=0o700)
        link.symlink_to(self.folder / "real")
        self.refused(link / "kiln.sock", "link")

    def test_a_path_that_is_too_long_for_a_socket_is_misuse(self):
        status, text = run("--listen", f"unix:{self.folder}/{'a' * 120}")
        self.assertEqual(status, 2, text)

    def test_the_default_socket_lies_in_the_runtime_folder(self):
        if os.geteuid() == 0:
            self.skipTest("root's default is /run/kiln")
        process = subprocess.Popen([KILND, "--device", "emulated"], stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, XDG_RUNTIME_DIR=str(self.folder)))
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        wait_until((self.folder / "kiln/kiln.sock").exists)
        self.assertEqual((self.folder / "kiln").stat().st_mode & 0o777, 0o700)

    def test_the_socket_is_gone_after_the_daemon_ended(self):
        daemon = Daemon(folder=str(self.folder))
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse(daemon.socket.exists())


class EndTest(unittest.TestCase):
    def serve(self, *arguments, **options):
        daemon = Daemon(*arguments, **options)
        self.addCleanup(daemon.close)
        client = daemon.connect()
        self.addCleanup(client.close)
        return daemon, client

    def test_sigterm_lets_requests_finish_and_exits_0(self):
        daemon, client = self.serve(faults="worker_hang:-1:500")
        request = client.send("compile", graph=NEG)
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.wait(request)["cache"], "compiled")
        self.assertEqual(daemon.process.wait(20 * SLOW), 0)

    def test_sigint_drains_too(self):
        daemon, _ = self.serve()
        daemon.process.send_signal(signal.SIGINT)
        self.assertEqual(daemon.process.wait(20 * SLOW), 0)

    def test_a_draining_daemon_refuses_new_requests_as_unavailable(self):
        daemon, client = self.serve(faults="worker_hang:-1:1000")
        request = client.send("compile", graph=NEG)
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.call("health")["draining"])
        with self.assertRaises(Error) as caught:
            client.call("compile", graph=NEG)
        self.assertEqual((caught.exception.code, caught.exception.retry), ("UNAVAILABLE", True))
        client.wait(request)

    def test_what_does_not_finish_within_the_drain_time_is_ended(self):
        daemon, client = self.serve("--drain-timeout", "0.5", faults="worker_hang:-1:60000")
        client.send("compile", graph=NEG)
        time.sleep(0.2)
        start = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(20 * SLOW), 0)
        self.assertLess(time.monotonic() - start, 5 * SLOW)

    def test_shutdown_ends_the_daemon_as_sigterm_does(self):
        daemon, client = self.serve()
        self.assertEqual(client.call("shutdown"), {"draining": True})
        self.assertEqual(daemon.process.wait(20 * SLOW), 0)

    def test_children_end_with_a_killed_supervisor(self):
        daemon, client = self.serve()
        client.call("compile", graph=NEG)
        children = daemon.children()
        self.assertGreaterEqual(len(children), 3)
        daemon.process.kill()
        daemon.process.wait()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") and
                                   "kilnd" in Path(f"/proc/{pid}/cmdline").read_text() for pid in children))

    def test_no_descriptor_of_the_daemon_leaks_into_workers_and_devices(self):
        daemon, client = self.serve()
        client.call("compile", graph=NEG)
        for pid in daemon.children("worker"):
            sockets = [fd for fd in os.listdir(f"/proc/{pid}/fd")
                       if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")]
            self.assertEqual(sockets, ["3"])


class DyingServerTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)

    def kill_server(self):
        before = self.daemon.children("server")
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: self.daemon.process.poll() is not None or
                   (self.daemon.children("server") or before) != before)

    def test_a_killed_server_is_started_again_and_finds_its_cache(self):
        client = self.daemon.connect()
        key = client.call("compile", graph=NEG)["key"]
        time.sleep(0.3)  # the entries are written after the reply
        self.kill_server()
        with self.assertRaises(ConnectionError):
            client.call("health")
        client.close()
        client = self.daemon.connect()
        again = client.call("compile", graph=NEG)
        self.assertEqual((again["key"], again["cache"]), (key, "disk"))
        wait_until(lambda: len(self.daemon.children("device")) == 1)
        client.close()

    def test_five_deaths_within_a_minute_end_the_daemon_with_status_4(self):
        for _ in range(5):
            wait_until(lambda: self.daemon.children("server"))
            self.kill_server()
        self.assertEqual(self.daemon.process.wait(20 * SLOW), 4)

    def test_a_server_that_dies_while_writing_an_entry_leaves_only_whole_ones(self):
        daemon = Daemon(faults="cache_write_dies:1")
        self.addCleanup(daemon.close)
        client = daemon.connect()
        before = daemon.children("server")
        try:
            client.call("compile", graph=NEG)
        except ConnectionError:
            pass
        client.close()
        wait_until(lambda: daemon.children("server") not in (before, []))  # the write comes after the reply
        orphans = daemon.children()
        daemon.process.kill()
        daemon.process.wait()
        wait_until(lambda: all(map(has_ended, orphans)))  # or they would answer for the next daemon
        after = Daemon(folder=str(daemon.folder))
        self.addCleanup(after.close)
        client = after.connect()
        result = client.call("compile", graph=NEG)
        self.assertIn(result["cache"], ("disk", "compiled"))
        client.close()

    def test_a_full_disk_is_survived(self):
        daemon = Daemon(faults="cache_write_fails:-1")
        self.addCleanup(daemon.close)
        client = daemon.connect()
        self.assertEqual(client.call("compile", graph=NEG)["cache"], "compiled")
        self.assertEqual(client.call("compile", graph=NEG)["cache"], "memory")
        client.close()


if __name__ == "__main__":
    unittest.main()
