"""A daemon of its own and a raw client for the tests of kilnd: no library of ours in between."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import msgpack

BUILD = Path(os.environ.get("KILN_BUILD_DIR", Path(__file__).resolve().parents[2] / "build"))
SLOW = 4 if "san" in BUILD.name else 1  # sanitizers take their time


class Error(Exception):
    """An error reply."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']} {error['detail']}")
        self.code = error["code"]
        self.message = error["message"]
        self.detail = error["detail"]
        self.retry = error["retry"]


class Client:
    """One connection. Replies are matched by id, so that several requests may be under way."""

    def __init__(self, path, timeout_s=60):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout_s * SLOW)
        self.socket.connect(str(path))
        self.unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=1 << 30)
        self.next_id = 0
        self.replies = {}
        self.notifications = []

    def send(self, method, **fields):
        """Sends a request and returns its id."""
        self.next_id += 1
        self.socket.sendall(msgpack.packb([0, self.next_id, method, [fields] if fields else []]))
        return self.next_id

    def receive(self):
        """The next message."""
        while True:
            for message in self.unpacker:
                return message
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the daemon closed the connection")
            self.unpacker.feed(data)

    def wait(self, request):
        """The result of the request; raises Error."""
        while request not in self.replies:
            message = self.receive()
            if message[0] == 2:
                self.notifications.append(message[1:])
            else:
                self.replies[message[1]] = message[2:]
        error, result = self.replies.pop(request)
        if error is not None:
            raise Error(error)
        return result

    def call(self, method, **fields):
        return self.wait(self.send(method, **fields))

    def raw(self, data):
        """Sends bytes; returns the messages until the daemon closes."""
        self.socket.sendall(data)
        messages = []
        try:
            while True:
                messages.append(self.receive())
        except ConnectionError:
            return messages

    def close(self):
        self.socket.close()


class Daemon:
    """kilnd on an emulated device, in a folder of its own."""

    def __init__(self, *arguments, faults=None, folder=None, environment=None):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="kiln-test-"))
        self.owns_folder = folder is None
        self.socket = self.folder / "kiln.sock"
        self.cache = self.folder / "cache"
        self.log_path = self.folder / "log"
        self.arguments = ["--device", "emulated", "--workers", "2", *arguments]
        self.environment = dict(os.environ, **(environment or {}))
        if faults:
            self.arguments.append("--test-hooks")
            self.environment["KILN_FAULTS"] = faults
        self.start()

    def start(self):
        self.log_file = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [BUILD / "bin/kilnd", "--listen", f"unix:{self.socket}", "--cache-dir", self.cache, *self.arguments],
            stdout=self.log_file, stderr=self.log_file, env=self.environment)
        deadline = time.monotonic() + 10 * SLOW
        while True:
            try:
                self.connect().close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"kilnd did not start:\n{self.log()}")
                time.sleep(0.01)

    def connect(self, **options):
        return Client(self.socket, **options)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def children(self, role=None):
        """Process ids of the daemon's children, by role."""
        found = []
        for line in subprocess.run(["ps", "--ppid", str(self.process.pid), "-o", "pid=,args="], check=False,
                                   capture_output=True, text=True).stdout.splitlines():
            pid, arguments = line.split(None, 1)
            if role is None or f"--role {role} " in arguments:
                found.append(int(pid))
        return found

    def private_bytes(self):
        """Private memory of all processes of the daemon."""
        total = 0
        for pid in [self.process.pid, *self.children()]:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Private_Dirty:", "Private_Clean:")):
                    total += int(line.split()[1]) * 1024
        return total

    def stop(self, timeout_s=20):
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s * SLOW)
        finally:
            self.log_file.close()

    def close(self):
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self.owns_folder:
                shutil.rmtree(self.folder, ignore_errors=True)
