#!/usr/bin/python3
"""Runs one file of unittest tests and prints TAP, as cmocka's programs do for scripts/check.py.

Usage: unittest_tap.py tests/py/test_FILE.py. Exits 1 when a test failed.
"""
import importlib.util
import sys
import unittest
from pathlib import Path


class Tap(unittest.TestResult):
    """Prints a line per test; the reason of a failure follows it, commented."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.failed = False

    def startTest(self, test):
        super().startTest(test)
        self.problems = []
        self.skip_reason = None

    def addFailure(self, test, err):
        self.problems.append(self._exc_info_to_string(err, test))

    def addError(self, test, err):
        if isinstance(test, unittest.TestCase):
            self.addFailure(test, err)
        else:  # setUpClass and the like, which stand for tests that do not run
            self.startTest(test)
            self.addFailure(test, err)
            self.stopTest(test)

    def addSubTest(self, test, subtest, err):
        if err:
            self.problems.append(f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason):
        self.skip_reason = reason

    def addUnexpectedSuccess(self, test):
        self.problems.append("passed although it is marked as expected to fail")

    def stopTest(self, test):
        super().stopTest(test)
        self.count += 1
        self.failed = self.failed or bool(self.problems)
        skip = f" # SKIP {self.skip_reason}" if self.skip_reason is not None else ""
        print(f"{'not ok' if self.problems else 'ok'} {self.count} - {test.id()}{skip}")
        for line in "\n".join(self.problems).splitlines():
            print("#", line)
        sys.stdout.flush()


def main():
    path = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    print(f"1..{suite.countTestCases()}", flush=True)
    result = Tap()
    suite.run(result)
    sys.exit(1 if result.failed else 0)


if __name__ == "__main__":
    main()
