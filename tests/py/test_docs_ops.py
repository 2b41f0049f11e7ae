"""docs/ops.md is what its generator prints."""
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).parents[2]
BUILD_DIR = pathlib.Path(os.environ.get("KILN_BUILD_DIR", ROOT / "build"))


class OpsPage(unittest.TestCase):
    def test_the_page_is_what_the_op_table_says(self):
        generated = subprocess.run([BUILD_DIR / "bin/gen_ops"], capture_output=True, text=True, check=True)
        page = (ROOT / "docs/ops.md").read_text()
        self.assertEqual(page, generated.stdout, "run build/bin/gen_ops > docs/ops.md")


if __name__ == "__main__":
    unittest.main()
