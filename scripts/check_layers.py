#!/usr/bin/python3
"""Checks that sources include only what their layer may see (one test of scripts/check.py).

Two tables: which folders a folder may include, and the one home of each foreign header. Tests
and benchmarks may include anything: they look inside, and check one library with another.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Files whose path starts with the left may include "right..." ; the longest left counts.
MAY_INCLUDE = {
    "base/": ["base/"],
    "include/kiln/": ["kiln/"],
    "ir/": ["ir/", "base/"],
    "passes/": ["passes/", "ir/", "base/"],
    "codegen/": ["codegen/", "ir/", "base/"],
    "runtime/": ["runtime/", "ir/", "base/"],
    "emulator/": ["emulator/", "base/"],
    "server/": ["server/", "runtime/", "ir/", "base/", "kiln_fingerprint.h"],
    "server/pipeline": ["server/", "passes/", "codegen/", "runtime/", "ir/", "base/",
                        "kiln_fingerprint.h"],
    "client/": ["client/", "ir/", "base/", "kiln/"],
    "client/cli_": ["client/", "server/pipeline.h", "server/verdict.h", "server/explanation.h",
                    "runtime/", "ir/", "base/", "kiln/", "kiln_fingerprint.h"],
    "client/kiln_main.c": ["client/", "base/", "kiln/", "kiln_fingerprint.h"],
}

# <header...> may be included by files whose path starts with one of the right.
HOME = {
    "uv.h": ["server/"],
    "msgpack": ["ir/mpack."],
    "dlfcn.h": ["runtime/driver/"],
    "openssl/": ["base/hash.c"],
    "uthash.h": ["base/map.h", "base/map.c"],
    "jansson.h": ["client/", "server/"],
    "cmocka.h": [],
    "cuda.h": [],   # base/cuda_abi.h declares what is used: no toolkit is needed to build
    "nvrtc.h": [],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)


def layer_of(path):
    return max((prefix for prefix in MAY_INCLUDE if path.startswith(prefix)), key=len, default="")


def violations(path, text):
    """One message per include of this file that breaks a table."""
    layer = layer_of(path)
    for ours, foreign in INCLUDE.findall(text):
        if ours and not ours.startswith(tuple(MAY_INCLUDE[layer])):
            yield f'{path}: {layer} may not include "{ours}"'
        for header, homes in HOME.items():
            if foreign.startswith(header) and not path.startswith(tuple(homes)):
                yield f"{path}: <{foreign}> belongs in {' or '.join(homes) or 'no file'}"


def main():
    sources = sorted(path for prefix in {p.split("/")[0] for p in MAY_INCLUDE}
                     for path in (ROOT / prefix).rglob("*") if path.suffix in (".c", ".h", ".def"))
    found = []
    for source in sources:
        path = source.relative_to(ROOT).as_posix()
        found += violations(path, source.read_text())
    print("\n".join(found) or f"{len(sources)} files keep to their layers")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
