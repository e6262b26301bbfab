# SPDX-License-Identifier: MIT
"""Runs the cases of a test file on one cluster."""
import os
import sys
import time
import traceback

import guard
import slurm

# Variables of the shell that starts the tests. Slurm would pass them on to jobs.
INHERITED = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "RANK", "WORLD_SIZE", "JOB_COMPLETION_INDEX",
             "CUDA_VISIBLE_DEVICES", "GPU_DISPATCH_SIM")


def clean_environment(directory):
    for name in list(os.environ):
        if name.startswith(INHERITED):
            del os.environ[name]
    os.environ.update(SHELL="/bin/sh", TMPDIR=directory, GPU_DISPATCH_JOBS=f"{directory}/jobs",
                      GPU_DISPATCH_LOCKS=directory, GPU_DISPATCH_SIM="2")


def run(cases):
    """Runs each case with the cluster and a directory of its own, and exits. The last line is `N passed, N failed`. If the
    command line has names of cases after the build directory, only these are run."""
    cases = [case for case in cases if not sys.argv[2:] or case.__name__ in sys.argv[2:]]

    def body(directory):
        clean_environment(directory)
        try:
            slurm.find_programs()
            cluster = slurm.Cluster(directory)
        except slurm.Unavailable as e:
            print(f"skipped: {e}\n0 passed, 0 failed, {len(cases)} skipped")
            return 77
        failed = 0
        for case in cases:
            begin, work = time.monotonic(), f"{directory}/{case.__name__}"
            os.mkdir(work)
            try:
                case(cluster, work)
                print(f"ok {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except Exception:  # whatever it was, the other cases are run
                failed += 1
                print(f"{cluster.logs()}{cluster.job_logs(work)}{traceback.format_exc()}"
                      f"FAILED {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            cluster.clear()
        print(f"{len(cases) - failed} passed, {failed} failed")
        return int(failed > 0)

    guard.run(body)


def build_directory():
    return os.path.abspath(sys.argv[1])
