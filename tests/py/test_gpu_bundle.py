"""`make gpu-bundle`: the folder is packed, and its run.sh runs with no environment and no build tree, the emulated
device standing in as libcuda.so.1. Labels: release-only"""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("KILN_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("KILN_BUILD_DIR", ROOT / "build"))
HIDDEN = [BUILD / "bin", BUILD / "lib", BUILD / "tests", BUILD / "bench", ROOT / "tests", ROOT / "scripts",
          ROOT / "examples", ROOT / "bench"]


def without_build_tree(command):
    """The command in a mount namespace where nothing of the build can be seen; as it is where that is not allowed."""
    hide = " && ".join(f"mount -t tmpfs none '{folder}'" for folder in HIDDEN)
    inside = ["unshare", "--mount", "sh", "-c"]
    if subprocess.run([*inside, f"{hide} && ! ls {BUILD}/bin/kiln"], capture_output=True, check=False).returncode:
        return command
    return [*inside, hide + ' && exec "$@"', "sh", *command]


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.said = subprocess.run([ROOT / "scripts/gpu_bundle.py", "--build", BUILD, "--output", cls.scratch.name,
                                   "--without-tar"], check=True, capture_output=True, text=True).stdout
        cls.folder = Path(cls.scratch.name, "kiln-gpu")
        cls.driver = Path(cls.scratch.name, "driver")
        cls.driver.mkdir()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_sh(self, *arguments):
        """In an environment that names the stand-in's folder and nothing else."""
        nvrtc = (BUILD / "nvrtc.path").read_text().strip()
        command = ["env", "-i", "PATH=/usr/bin:/bin", f"LD_LIBRARY_PATH={self.driver}", f"KILN_NVRTC={nvrtc}",
                   str(self.folder / "run.sh"), *arguments]
        return subprocess.run(without_build_tree(command), capture_output=True, text=True, timeout=250, check=False,
                              cwd="/", env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})

    def test_every_program_finds_its_libraries_in_the_folder(self):
        for program in [*self.folder.glob("bin/*"), *self.folder.glob("tests/*"), self.folder / "bench/gpu"]:
            said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True, env={}).stdout
            for name, path in re.findall(r"(\S+) => (\S+)", said):
                if not name.startswith(("libc.", "libm.", "libdl.", "libpthread.", "librt.")):
                    self.assertEqual(Path(path).resolve().parent, (self.folder / "lib").resolve(), (program, name))

    def test_the_oldest_c_library_is_told(self):
        glibc = re.search(r"glibc (\d+\.\d+) or later", self.said).group(1)
        self.assertIn(f"glibc {glibc} or later", (self.folder / "README").read_text())

    def test_run_sh_without_a_driver_says_so_and_fails(self):
        broken = self.driver / "libcuda.so.1"
        broken.write_text("no library")
        self.addCleanup(broken.unlink)
        done = self.run_sh()
        self.assertEqual(done.returncode, 1)
        self.assertIn("driver: none that can be used", done.stdout)
        self.assertTrue(done.stdout.endswith("0 passed, 1 failed, 0 skipped\n"))

    def test_run_sh_runs_tests_an_example_and_benchmarks(self):
        shutil.copy(self.folder / "lib/libkiln-emu.so", self.driver / "libcuda.so.1")
        self.addCleanup((self.driver / "libcuda.so.1").unlink)
        for graph in self.folder.glob("examples/*.kiln"):
            if graph.name != "rope_table.kiln":
                graph.unlink()
        done = self.run_sh("--tests", "runtime_execute", "--family", "add f32", "--largest", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^driver: .*libcuda.so.1, CUDA \d+\.\d; kiln emulated H200, sm_90, 132 SMs")
        self.assertRegex(lines[1], r"^NVRTC: .*, \d+\.\d+, knows sm_90")
        self.assertRegex(done.stdout, r"test_runtime_execute: \d+ passed, 0 failed, 3 skipped")
        self.assertIn("rope_table.kiln: agrees with the reference", done.stdout)
        self.assertRegex(lines[-1], r"^\d+ passed, 0 failed, 3 skipped$")
        figures = json.loads((self.folder / "results.json").read_text())
        (row,) = figures["rows"]
        self.assertEqual((row["family"], row["n"], row["bytes"]), ("elementwise", 65536, 3 * 4 * 65536))
        for name in ("time_ns", "copy_ns", "estimate_ns"):
            self.assertGreater(row[name], 0)

    def test_a_test_that_fails_is_counted_and_shown(self):
        shutil.copy(self.folder / "lib/libkiln-emu.so", self.driver / "libcuda.so.1")
        self.addCleanup((self.driver / "libcuda.so.1").unlink)
        broken = self.folder / "tests/test_broken"
        broken.write_text('#!/bin/sh\necho "1..3"\necho "ok 1 - good"\necho "not ok 2 - bad"\n'
                          'echo "not ok 3 # SKIP other"\nexit 1\n')
        broken.chmod(0o755)
        self.addCleanup(broken.unlink)
        done = self.run_sh("--only", "tests", "--tests", "broken")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not ok 2 - bad", done.stdout)
        self.assertTrue(done.stdout.endswith("1 passed, 1 failed, 1 skipped\n"), done.stdout)


if __name__ == "__main__":
    unittest.main()
