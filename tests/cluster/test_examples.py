# SPDX-License-Identifier: MIT
"""The examples for clusters, as far as they need no cluster: the scripts have no faults that bash or shellcheck find,
the script for ssh is run with a stand-in for ssh, and the manifest is a valid one. slurm/test_shards.py runs the
scripts for Slurm.

    test_examples.py BUILD_DIRECTORY

The manifest is checked with kubernetes-validate from PyPI, in an environment in BUILD_DIRECTORY. Prints a line per case
and, last, "N passed, N failed, N skipped".
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import venv

import work

BUILD = os.path.abspath(sys.argv[1])
EXAMPLES = os.path.join(os.environ["GD_SOURCE_ROOT"], "examples", "cluster")
SCRIPTS = sorted(glob.glob(f"{EXAMPLES}/*.sh"))
MANIFEST = f"{EXAMPLES}/kubernetes.yaml"
LIMIT_S = 120
# Runs the line here instead of on the host. A host named "down" cannot be reached.
SSH = """\
#!/bin/bash
while [[ $1 == -* ]]; do if [ "$1" = -o ]; then shift 2; else shift; fi; done
[ "$1" != down ] || { echo "ssh: connect to host down: No route to host" >&2; exit 255; }
exec sh -c "$2"
"""


class Skipped(Exception):
    pass


def quietly(*words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, **more)


def bash_reads_the_scripts(_directory):
    for script in SCRIPTS:
        done = quietly("bash", "-n", script)
        assert done.returncode == 0, done.stdout


def shellcheck_finds_nothing(_directory):
    if not shutil.which("shellcheck"):
        raise Skipped("shellcheck is not installed")
    done = quietly("shellcheck", *SCRIPTS)
    assert done.returncode == 0, done.stdout


def run_ssh(w, hosts):
    return quietly(f"{EXAMPLES}/ssh.sh", hosts, "list", "./task", cwd=w.at, env={
        **os.environ, "PATH": f"{w.at}:{BUILD}:{os.environ['PATH']}", "GPU_DISPATCH_SIM": "2"})


def ssh_runs_all_shards(directory):
    w = work.Work(directory, f"{BUILD}/gpu-dispatch", 30)
    w.write("ssh", SSH)
    w.let_end()
    done = run_ssh(w, "a b c")
    assert done.returncode == 0, done.stdout
    w.check(3)


def a_host_that_is_down_is_replaced(directory):
    w = work.Work(directory, f"{BUILD}/gpu-dispatch", 30)
    w.write("ssh", SSH)
    w.let_end()
    done = run_ssh(w, "a down c")
    assert done.returncode == 1 and "down: shard 2/3 ended with status 255" in done.stdout, done.stdout
    done = run_ssh(w, "a b c")
    assert done.returncode == 0, done.stdout
    w.check(3)
    assert sorted(text for text, _, _ in w.all_begun()) == sorted(w.inputs)  # nothing was run twice


def python_with_validator():
    """The Python of an environment with kubernetes-validate, which is made once."""
    directory = f"{BUILD}/kubernetes-venv"
    python, made = f"{directory}/bin/python", f"{directory}/made"
    if not os.path.exists(made):
        shutil.rmtree(directory, ignore_errors=True)
        try:
            venv.create(directory, with_pip=True)
            done = quietly(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "kubernetes-validate")
        except (OSError, subprocess.SubprocessError) as e:
            raise Skipped(f"no environment for kubernetes-validate: {e}") from e
        if done.returncode != 0:
            raise Skipped(f"pip cannot install kubernetes-validate: {done.stdout.strip().splitlines()[-1]}")
        open(made, "w", encoding="utf-8").close()
    return python


def validate(path):
    return quietly(python_with_validator(), "-m", "kubernetes_validate", "--strict", path)


def the_manifest_is_valid(directory):
    done = validate(MANIFEST)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout
    with open(MANIFEST, encoding="utf-8") as f:
        text = f.read()
    for right, wrong in (("completionMode", "completionsMode"), ("completions: 16", "completions: many"),
                         ("operator: NotIn", "operators: NotIn")):
        assert right in text, right
        with open(f"{directory}/wrong.yaml", "w", encoding="utf-8") as f:
            f.write(text.replace(right, wrong))
        assert validate(f"{directory}/wrong.yaml").returncode != 0, f"{wrong} was accepted"


def the_numbers_in_the_manifest_agree(_directory):
    """What no schema says: the number of shards, and the grace of Kubernetes and of the command."""
    with open(MANIFEST, encoding="utf-8") as f:
        text = f.read()
    completions, shards = re.search(r"completions: (\d+)", text)[1], re.search(r"auto/(\d+)", text.partition("spec:")[2])[1]
    assert completions == re.search(r"parallelism: (\d+)", text)[1] == re.findall(r"--shard, auto/(\d+)", text)[0] == shards
    assert int(re.search(r"terminationGracePeriodSeconds: (\d+)", text)[1]) > int(re.search(r"--stop-grace, (\d+)s", text)[1])
    again, never = (re.search(rf"operator: {name}\s+values: \[(.*)\]", text)[1] for name in ("In", "NotIn"))
    statuses = [int(status) for status in again.split(",")]
    assert again == never and statuses == sorted(set(statuses)), again  # Kubernetes wants them sorted
    assert not {0, 255, *range(1, 102)} & set(statuses), again


CASES = (bash_reads_the_scripts, shellcheck_finds_nothing, ssh_runs_all_shards, a_host_that_is_down_is_replaced,
         the_manifest_is_valid, the_numbers_in_the_manifest_agree)


def main():
    failed = skipped = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as directory:
            try:
                case(directory)
                print("ok", case.__name__)
            except Skipped as e:
                skipped += 1
                print(f"skipped {case.__name__}: {e}")
            except Exception:  # whatever it was, the other cases are run
                failed += 1
                print(f"FAILED {case.__name__}\n{traceback.format_exc()}")
    print(f"{len(CASES) - failed - skipped} passed, {failed} failed" + f", {skipped} skipped" * bool(skipped))
    return failed > 0


sys.exit(main())
