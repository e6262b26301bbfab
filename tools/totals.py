#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds up a Meson test log and prints one line `N passed, N failed`, with `, N skipped` if tests were skipped.

If the output of a test program ends with such a line, its numbers are used. Any other program counts as one test. A
program that failed without reporting a failed case (it crashed or exceeded its time limit) counts as one more failure.
Exits with 1 if a test failed, or if nothing was run.

usage: totals.py BUILD_DIR/meson-logs/testlog.json
"""
import json
import re
import sys

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)
PASSED, SKIPPED = ("OK", "EXPECTEDFAIL"), ("SKIP",)


def count(test):
    """Number of tests of one program in the log: passed, failed, skipped."""
    reported = COUNTS.findall(test.get("stdout") or "")
    passed, failed, skipped = (int(n or 0) for n in reported[-1]) if reported else (0, 0, 0)
    if test["result"] in PASSED or test["result"] in SKIPPED:
        if not reported:
            passed, skipped = int(test["result"] in PASSED), int(test["result"] in SKIPPED)
    elif not failed:
        failed = 1
    return passed, failed, skipped


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            counts = [count(json.loads(line)) for line in log if line.strip()]
    except OSError as error:
        print(f"no test log: {error}", file=sys.stderr)
        counts = []
    passed, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 1, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
