# SPDX-License-Identifier: MIT
"""Runs cases: functions that get an empty directory. Prints a line for each. The last line is "N passed, N failed"."""
import pathlib
import subprocess
import tempfile


class Skip(Exception):
    pass


def run(cases):
    passed = failed = skipped = 0
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="gd-models-") as directory:
            try:
                case(pathlib.Path(directory))
                passed += 1
                print("ok", case.__name__)
            except Skip as why:
                skipped += 1
                print(f"skipped {case.__name__}: {why}")
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED {case.__name__}: {error!r}")
    print(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return failed > 0
