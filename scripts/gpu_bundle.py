#!/usr/bin/python3
"""Packs what runs on a machine with a GPU into one folder: device tests, bench/gpu, the command, and their libraries.

   build/ -> build/gpu-bundle/kiln-gpu/{run.sh, README, bin, tests, bench, lib, examples} -> kiln-gpu.tar.gz

Nothing needs to be installed there: programs find their libraries in lib/ beside them (run path $ORIGIN/../lib), where
everything that they need lies but the C library, which must be as new as README says, the driver and NVRTC.

Usage: gpu_bundle.py [--build DIR] [--output DIR] [--without-tar]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402

ROOT = check.ROOT
# Of the C library and the loader: those of the machine that it runs on.
OF_THE_SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libgcc_s)\.so|linux-vdso")
README = """kiln on a GPU
=============
    ./run.sh                device tests, then bench/gpu: about 5 minutes; results.json has the figures
    ./run.sh --help         parts of it

Needs: x86-64 Linux with glibc {glibc} or later, an NVIDIA driver for CUDA 12.1 or later, NVRTC 12.1 or later
(libnvrtc.so of a CUDA toolkit; KILN_NVRTC names it where it is not found). Nothing is installed.

bin/kiln run --local --device cuda --check examples/rope_table.kiln
"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def programs(build):
    """(file, folder in the bundle) of every program and of the emulated device."""
    yield build / "bin/kiln", "bin"
    yield build / "bin/kilnd", "bin"
    yield build / "bench/gpu", "bench"
    yield build / "lib/libkiln-emu.so", "lib"
    for source in sorted((ROOT / "tests/unit").glob("test_*.c")):
        if "device" in check.labels_of(source):
            yield build / "tests" / source.stem, "tests"


def libraries(files):
    """What the files need, by the loader's own account, less what is the system's."""
    found = {}
    for file in files:
        for name, path in re.findall(r"(\S+) => (\S+)", run("ldd", file)):
            if path == "not":
                sys.exit(f"gpu_bundle: {file} needs {name}, which is not found")
            if not OF_THE_SYSTEM.match(name):
                found[name] = Path(path)
    return found


def newest_glibc(files):
    versions = set()
    for file in files:
        versions.update(re.findall(r"\bGLIBC_(\d+)\.(\d+)", run("objdump", "-T", file)))
    return ".".join(max(versions, key=lambda version: [int(part) for part in version]))


def copy(file, to):
    """Without debug information: a tenth of the size."""
    to.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--strip-debug", os.path.realpath(file), to)
    to.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description="Packs the programs that run on a machine with a GPU.")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--output", type=Path, help="default: gpu-bundle in the build folder")
    parser.add_argument("--without-tar", action="store_true")
    options = parser.parse_args()
    output = options.output or options.build / "gpu-bundle"
    folder = output / "kiln-gpu"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, place in programs(options.build):
        copy(file, folder / place / file.name)
    for name, path in libraries(file for file, _ in programs(options.build)).items():
        copy(path, folder / "lib" / name)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.c"))
    shutil.copy(ROOT / "scripts/gpu_run.sh", folder / "run.sh")
    packed = [path for place in ("bin", "bench", "lib", "tests") for path in (folder / place).iterdir()]
    glibc = newest_glibc(packed)
    (folder / "README").write_text(README.format(glibc=glibc))
    print(f"{folder}: {len(packed)} files, glibc {glibc} or later")
    if not options.without_tar:
        with tarfile.open(output / "kiln-gpu.tar.gz", "w:gz") as tar:
            tar.add(folder, folder.name)
        print(f"{output / 'kiln-gpu.tar.gz'}: {(output / 'kiln-gpu.tar.gz').stat().st_size >> 20} MiB")


if __name__ == "__main__":
    main()
