"""The stage "gpu" of scripts/check.py on a machine without a GPU: skips that are counted, and the way of device tests to
a libcuda.so.1, proven with the emulated device under that name. Labels: release-only"""
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("KILN_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "scripts"))
import check  # noqa: E402


class GpuStage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.driver = Path(folder.name, "libcuda.so.1")
        self.jobs = {job.name.removeprefix("gpu: test_"): job for job in check.test_jobs("gpu")}

    def run_job(self, name):
        """With self.driver as the machine's driver."""
        job = self.jobs[name]
        job.environment["LD_LIBRARY_PATH"] = str(self.driver.parent)
        return check.run(job)

    def test_the_device_tests_are_those_of_codegen_conformance_and_runtime(self):
        self.assertEqual({name.split("_")[0] for name in self.jobs}, {"codegen", "conform", "runtime"})

    def test_without_a_driver_each_program_is_one_skip_with_the_reason(self):
        self.driver.write_text("no library")
        for name in self.jobs:
            (result,), output = self.run_job(name)
            self.assertEqual(result.outcome, "skipped", output)
            self.assertIn("no CUDA device: ", result.detail)
            self.assertIn("libcuda.so.1", result.detail)

    def test_a_driver_that_refuses_cubins_is_given_the_ptx_beside_them(self):
        self.driver.symlink_to(check.BUILD_DIRS["gpu"] / "lib/libkiln-emu.so")
        for name in ("runtime_execute", "conform_warp", "codegen_symbols"):
            results, output = self.run_job(name)
            self.assertGreater(len(results), 4)
            for result in results:
                if result.outcome == "skipped":
                    self.assertIn("only of the emulated device", result.detail)
                else:
                    self.assertEqual(result.outcome, "passed", output)


if __name__ == "__main__":
    unittest.main()
