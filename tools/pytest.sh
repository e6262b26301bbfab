#!/bin/sh
# Runs the Python tests on the package in a build directory. The last line is their total, `N passed, N failed`.
# $GD_PRELOAD: libraries to preload (those of a sanitizer, which must be loaded before the interpreter's). The reports
# of a sanitizer go to files, because pytest would lose them in the output that it captures, and in a worker they would
# look like a crash. Each report counts as a failure.
# $GD_PYTEST_MARKS: which tests, an expression for `pytest -m` (default: tests that are not marked as slow; empty: all
# tests).
# $GD_PYTEST_WORKERS: how many processes of pytest share the tests. With 0 pytest runs them itself.
# usage: pytest.sh BUILD_DIR [arguments of pytest]
set -u
build=$(cd "$1" && pwd) || exit 1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
marks=${GD_PYTEST_MARKS-not slow}
name=pytest
[ "$marks" != slow ] || name=pytest_slow
report=$build/meson-logs/$name.xml
found=$build/meson-logs/$name.sanitizer
python=$build/venv/bin/python

[ -f "$build/venv/made" ] || { echo "skipped: no $build/venv (tools/venv.sh makes it)"; exit 77; }
rm -f "$report" "$found".*
cd "$root" || exit 1
# Uses its own directory: the default directory of pytest is shared, and may belong to another user.
tmp=$(mktemp -d "${TMPDIR:-/tmp}/gd_pytest.XXXXXX") || exit 1
# Runs one file more at a time than there are processors, because many tests wait. No test takes half as long as the
# limit. If a test hangs, only that test fails.
env TMPDIR="$tmp" PYTHONPATH="$build/python:$build/tests" PYTHONDONTWRITEBYTECODE=1 ${GD_PRELOAD:+LD_PRELOAD="$GD_PRELOAD"} \
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:log_path=$found" UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:log_path=$found" \
    "$python" -m pytest -p no:cacheprovider -q -n "${GD_PYTEST_WORKERS:-$(($(nproc) + 1))}" --dist loadfile -m "$marks" \
    --durations=5 --timeout="${GD_TEST_TIMEOUT:-300}" --junitxml="$report" --basetemp="$tmp/pytest" "$@" </dev/null
status=$?
if [ "$status" -eq 0 ]; then rm -rf "$tmp"; else echo "the files of the tests are in $tmp"; fi
set -- "$found".*
[ -f "$1" ] || set --
for file in "$@"; do
    echo "--- $file"
    head -n 100 "$file"
    status=1
done
[ -f "$report" ] || { echo "pytest ended with status $status and without a report"; exit 1; }
"$python" - "$report" $# <<'END' || exit 1
import sys
import xml.etree.ElementTree as tree

suites = tree.parse(sys.argv[1]).getroot().iter("testsuite")
counts = [[int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")] for suite in suites]
tests, failures, errors, skipped = (sum(column) for column in zip(*counts))
found = int(sys.argv[2])
passed, failed = tests - failures - errors - skipped, failures + errors + found
print(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
END
exit "$status"
