#!/usr/bin/python3
"""Checks README's "life of one request" against the sources (one test of scripts/check.py).

Each step there names a function as `path:function`; both must exist, the function in that file.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^##+ .*life of one request.*?\n(.*?)(?=^## |\Z)", re.M | re.S | re.I)
STEP = re.compile(r"`([\w./-]+\.[ch]):(\w+)(?:\(\))?`")


def problem_with(path, function):
    source = ROOT / path
    if not source.is_file():
        return f"{path} does not exist"
    if not re.search(rf"^\w[^;={{}}]*\b{function}\(", source.read_text(), re.M):
        return f"{path} has no function {function}"
    return None


def main():
    readme = ROOT / "README.md"
    section = SECTION.search(readme.read_text()) if readme.is_file() else None
    if not section:
        sys.exit('README.md has no section "The life of one request"')
    steps = STEP.findall(section.group(1))
    problems = [problem for step in steps if (problem := problem_with(*step))]
    if not steps:
        problems.append("The life of one request names no `path:function`")
    print("\n".join(problems) or f"{len(steps)} steps name functions that exist")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
