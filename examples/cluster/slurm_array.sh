#!/bin/bash
# Runs a program on each line of a list, on 16 nodes. Each element of the array is one shard of the list.
#
#   sbatch slurm_array.sh LIST PROGRAM [ARGUMENT...]
#
# If a node dies or the job is preempted, Slurm starts the element again, and it goes on where it was. The same line
# also continues a job that has ended. Options of sbatch come before the name of the script: sbatch --array=0-3 ...
#
#SBATCH --job-name=dispatch
#SBATCH --array=0-15
#SBATCH --nodes=1 --ntasks=1
#SBATCH --gres=gpu:8
#SBATCH --requeue --open-mode=append
#SBATCH --signal=TERM@60
set -eu
list=$1
shift
trap : TERM # the program gets it too. Wait for its end

status=0
# With srun, the program is told at once that the job is preempted. Without it, only when the grace time is over.
srun gpu-dispatch run --shard auto --journal run.db --resume --output out.jsonl --stop-grace 25s \
    "$@" {} :::: "$list" || status=$?

# A job that ends within the grace time of a preemption counts as ended, and Slurm does not start it again. Nor does it
# after the time limit. So ask for it, but not if the job was cancelled. 143: ended by SIGTERM.
if [ "$status" -eq 143 ] && scontrol show job "$SLURM_JOB_ID" | grep -q JobState=RUNNING; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
