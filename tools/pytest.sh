#!/bin/sh
# Runs the Python tests on the package in a build folder, and ends with their total, `N passed, N failed`.
# $GD_PRELOAD: libraries to preload (a sanitizer's, which must come before the interpreter's own).
# usage: pytest.sh BUILD_DIR [arguments of pytest]
set -u
build=$(cd "$1" && pwd) || exit 1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
report=$build/meson-logs/pytest.xml
python=$build/venv/bin/python

[ -f "$build/venv/made" ] || { echo "skipped: no $build/venv (tools/venv.sh makes it)"; exit 77; }
rm -f "$report"
cd "$root" || exit 1
# No test takes half as long; one that hangs fails by itself and not the whole run with it.
env PYTHONPATH="$build/python:$build/tests" PYTHONDONTWRITEBYTECODE=1 ${GD_PRELOAD:+LD_PRELOAD="$GD_PRELOAD"} \
    "$python" -m pytest -p no:cacheprovider -q --durations=5 --timeout="${GD_TEST_TIMEOUT:-300}" --junitxml="$report" "$@"
status=$?
"$python" - "$report" <<'END' || exit 1
import sys
import xml.etree.ElementTree as tree

suites = tree.parse(sys.argv[1]).getroot().iter("testsuite")
counts = [[int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")] for suite in suites]
tests, failures, errors, skipped = (sum(column) for column in zip(*counts))
print(f"{tests - failures - errors - skipped} passed, {failures + errors} failed" + f", {skipped} skipped" * bool(skipped))
END
exit "$status"
