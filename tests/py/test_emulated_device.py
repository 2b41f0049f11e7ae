"""libkiln-emu in place of the CUDA driver: a program that links against libcuda.so.1 and knows nothing of it.

The program is compiled here, against a stub with the driver's name and symbols, as CUDA's toolkit has one.
Labels: release-only (a plain program cannot load a library that is built with a sanitizer)
"""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from kiln_command import BUILD

PROGRAM = r"""
#include <stdio.h>
typedef unsigned long long address_t;
int cuInit(unsigned); int cuDeviceGet(int *, int); int cuCtxCreate_v2(void **, unsigned, int); int cuCtxDestroy_v2(void *);
int cuModuleLoadData(void **, const void *); int cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(address_t *, size_t); int cuMemcpyDtoH_v2(void *, address_t, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static const char ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry square(.param .u64 p) {\n"
    "  .reg .b64 %a; .reg .b32 %t;\n  ld.param.u64 %a, [p]; mov.u32 %t, %tid.x;\n"
    "  mad.wide.u32 %a, %t, 4, %a; mul.lo.u32 %t, %t, %t;\n  st.global.u32 [%a], %t; ret;\n}\n";
int main(int argc, char **argv) {
  void *context, *module, *function;
  int device, squares[64];
  address_t p;
  void *params[] = {&p};
  (void)argv;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device) ||
      cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&function, module, "square") ||
      cuMemAlloc_v2(&p, sizeof squares) ||
      cuLaunchKernel(function, 1, 1, 1, argc > 1 ? 65 : 64, 1, 1, 0, NULL, params, NULL) ||
      cuMemcpyDtoH_v2(squares, p, sizeof squares))
    return 1;
  printf("%d\n", squares[63]);
  return cuCtxDestroy_v2(context);
}
"""
SYMBOLS = ("cuInit cuDeviceGet cuCtxCreate_v2 cuCtxDestroy_v2 cuModuleLoadData cuModuleGetFunction cuMemAlloc_v2 "
           "cuMemcpyDtoH_v2 cuLaunchKernel").split()


class InPlaceOfTheDriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compiler = shutil.which("gcc") or shutil.which("clang")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        here = Path(cls.folder.name)
        Path(here, "program.c").write_text(PROGRAM)
        Path(here, "stub.c").write_text("".join(f"int {name}(void) {{ return 34; }}\n" for name in SYMBOLS))
        Path(here, "stub").mkdir()
        Path(here, "lib").mkdir()
        subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", here / "stub/libcuda.so",
                        here / "stub.c"], check=True)
        subprocess.run([compiler, "-o", here / "program", here / "program.c", f"-L{here}/stub", "-lcuda"], check=True)
        Path(here, "lib/libcuda.so.1").symlink_to(BUILD / "lib/libkiln-emu.so")

    def program(self, *arguments, **environment):
        """Runs it with none of the emulator's variables but the given ones."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KILN_EMU_")}
        return subprocess.run([f"{self.folder.name}/program", *arguments], capture_output=True, text=True, timeout=60,
                              env={**inherited, "LD_LIBRARY_PATH": f"{self.folder.name}/lib", **environment},
                              check=False)

    def test_a_link_named_libcuda_is_enough(self):
        done = self.program()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "3969\n", ""))

    def test_the_environment_switches_reports_and_checkers(self):
        done = self.program("too many", KILN_EMU_REPORT="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("0 bytes past the end of an allocation of 256 bytes\n  in kernel square", done.stderr)
        done = self.program(KILN_EMU_CHECKS="leak")
        self.assertEqual(done.returncode, 0)
        self.assertIn("1 allocations of 256 bytes were never freed", done.stderr)
        done = self.program(KILN_EMU_CHECKS="leek")
        self.assertEqual(done.returncode, 1)
        self.assertIn("KILN_EMU_CHECKS=leek", done.stderr)


if __name__ == "__main__":
    unittest.main()
