#!/usr/bin/python3
"""Finds NVRTC 12.1 or later and writes its path to build/nvrtc.path; sees to CUDA's headers.

In order: the library that KILN_NVRTC names; an installed toolkit (not with
KILN_SETUP_IGNORE_TOOLKIT=1); the PyPI wheel, unpacked in build/nvrtc/. The build makes the
path the daemon's default, which KILN_NVRTC overrides at run time. Exits 1 with one line that
names what was tried when there is none.

Tests of the emulated device compile CUDA's headers (tests/support/cuda_headers.c looks for them). Where no toolkit
has them, the PyPI packages of NVRTC's version are unpacked beside its wheel. Without them those tests are skipped.
"""
import ctypes
import glob
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEEL_DIR = ROOT / "build/nvrtc"
# A cubin from NVRTC 12 loads on drivers of 12 and 13, so its wheel comes first.
WHEELS = ("nvidia-cuda-nvrtc-cu12>=12.1", "nvidia-cuda-nvrtc>=13.0")
# cuda_fp16.h and its kin, <nv/target>, crt/.
HEADER_WHEELS = {12: ("nvidia-cuda-runtime-cu12>=12.1,<13", "nvidia-cuda-cccl-cu12>=12.1,<13"),
                 13: ("nvidia-cuda-runtime>=13.0,<14", "nvidia-cuda-cccl>=13.0,<14",
                      "nvidia-cuda-crt>=13.0,<14")}
OLDEST = (12, 1)


def version_of(library):
    """(major, minor) of the NVRTC at this path or name; raises OSError when it does not load."""
    nvrtc = ctypes.CDLL(library)
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def problem_with(library):
    """Why this library will not do, or None."""
    try:
        version = version_of(library)
    except (OSError, AttributeError) as error:
        return f"does not load: {error}"
    return None if version >= OLDEST else "is version %d.%d" % version


def toolkit_libraries():
    """Libraries of installed toolkits: the default one, then the newest, then the linker's."""
    folders = ["/usr/local/cuda"] + sorted(glob.glob("/usr/local/cuda-*"), reverse=True)
    for folder in folders:
        for lib in ("lib64", "targets/x86_64-linux/lib"):
            yield from glob.glob(f"{folder}/{lib}/libnvrtc.so")
            yield from glob.glob(f"{folder}/{lib}/libnvrtc.so.[0-9][0-9]")
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    yield from (line.split(" => ")[1] for line in listed.splitlines() if "libnvrtc.so" in line)


def wheel_libraries():
    return glob.glob(f"{WHEEL_DIR}/packages/nvidia/*/lib/libnvrtc.so.[0-9][0-9]")


def install_wheel(wheel):
    """Unpacks a wheel under build/nvrtc/; returns why that failed, or None."""
    venv = WHEEL_DIR / "venv"
    steps = ([sys.executable, "-m", "venv", venv],
             [venv / "bin/pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check",
              "--target", WHEEL_DIR / "packages", wheel])
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode != 0:
            return (done.stderr.strip().splitlines() or ["no output"])[-1]
    return None


def has_headers():
    """Whether a toolkit or an unpacked package has cuda_fp16.h."""
    folders = glob.glob(f"{WHEEL_DIR}/packages/nvidia/*/include")
    if os.environ.get("KILN_SETUP_IGNORE_TOOLKIT") != "1":
        folders += ["/usr/local/cuda/include", "/opt/cuda/include", "/usr/include"]
    return any(Path(folder, "cuda_fp16.h").exists() for folder in folders)


def install_headers(major):
    """Unpacks the packages with CUDA's headers; says what does not come."""
    for wheel in HEADER_WHEELS.get(major, ()):
        print(f"setup: no CUDA headers installed, fetching {wheel} from PyPI", flush=True)
        problem = install_wheel(wheel)
        if problem:
            print(f"setup: {wheel}: {problem}; tests that need it are skipped")


def find(tried):
    """The first library that will do, or None; appends to `tried` what would not."""
    def first_good(libraries):
        for library in libraries:
            problem = problem_with(library)
            if problem is None:
                return library
            tried.append(f"{library} {problem}")
        return None

    named = os.environ.get("KILN_NVRTC")
    if named:
        return first_good([named])
    if os.environ.get("KILN_SETUP_IGNORE_TOOLKIT") != "1":
        found = first_good(toolkit_libraries())
        if found:
            return found
        tried.append("no toolkit in /usr/local/cuda* or the linker's cache")
    found = first_good(wheel_libraries())
    for wheel in WHEELS:
        if found:
            break
        print(f"setup: no installed NVRTC, fetching {wheel} from PyPI", flush=True)
        problem = install_wheel(wheel)
        tried += [f"{wheel}: {problem}"] if problem else []
        found = first_good(wheel_libraries())
    return found


def main():
    tried = []
    library = find(tried)
    if library is None:
        sys.exit("setup: no NVRTC 12.1 or later (tried " + "; ".join(tried) +
                 "); install the CUDA toolkit or set KILN_NVRTC to a libnvrtc.so")
    if not has_headers():
        install_headers(version_of(library)[0])
    path_file = ROOT / "build/nvrtc.path"
    text = library + "\n"
    if not path_file.exists() or path_file.read_text() != text:
        path_file.parent.mkdir(exist_ok=True)
        path_file.write_text(text)
        print("setup: NVRTC %d.%d, %s" % (*version_of(library), library))


if __name__ == "__main__":
    main()
