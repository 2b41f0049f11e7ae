"""scripts/setup.sh on a machine without any of the packages: apt-get and dpkg-query are stood in for, and apt itself says
whether the list can be installed from nothing. Labels: release-only"""
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("KILN_SOURCE_DIR", Path(__file__).resolve().parents[2]))


def packages():
    """Those that setup.sh names."""
    text = (ROOT / "scripts/setup.sh").read_text()
    return [name for line in re.findall(r'^(?:build|libraries|tests)="(.*)"', text, re.M) for name in line.split()]


class Setup(unittest.TestCase):
    def run_setup(self, status):
        """What apt-get was called with, dpkg-query giving each package this status."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            shims = {"dpkg-query": f"printf '%s' '{status}'", "apt-get": f'echo "$DEBIAN_FRONTEND:$*" >>{log}',
                     "sudo": 'exec "$@"'}
            for name, text in shims.items():
                path = Path(folder, name)
                path.write_text(f"#!/bin/sh\n{text}\n")
                path.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "DEBIAN_FRONTEND": ""}
            subprocess.run([ROOT / "scripts/setup.sh"], check=True, capture_output=True, env=environment)
            return log.read_text().splitlines() if log.exists() else []

    def test_what_is_missing_is_installed_without_questions(self):
        update, install = self.run_setup("not-installed")
        self.assertEqual(update, ":update -q")
        self.assertEqual(install.split(), ["noninteractive:install", "-q", "-y", "--no-install-recommends", *packages()])

    def test_nothing_is_installed_where_nothing_is_missing(self):
        self.assertEqual(self.run_setup("installed"), [])

    def test_apt_can_install_the_list_on_a_machine_that_has_nothing(self):
        with tempfile.NamedTemporaryFile() as nothing:
            done = subprocess.run(["apt-get", "-s", "install", "--no-install-recommends",
                                   "-o", f"Dir::State::status={nothing.name}", *packages()],
                                  capture_output=True, text=True, check=False)
        if "Unable to locate package" in done.stderr:
            self.skipTest("apt has no package lists here: " + done.stderr.splitlines()[0])
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in packages():
            self.assertRegex(done.stdout, rf"(?m)^Inst {re.escape(name)} ")


if __name__ == "__main__":
    unittest.main()
