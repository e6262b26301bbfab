#!/bin/bash
# Runs a program on each line of a list, on 16 nodes. They are one job, and each of its nodes is one shard of the list.
#
#   sbatch slurm_srun.sh LIST PROGRAM [ARGUMENT...]
#
# If a node dies, Slurm ends the whole job and starts it again, as soon as it has 16 nodes. In an array
# (slurm_array.sh) the other nodes go on.
#
#SBATCH --job-name=dispatch
#SBATCH --nodes=16 --ntasks-per-node=1
#SBATCH --gres=gpu:8
#SBATCH --requeue --open-mode=append
#SBATCH --signal=TERM@60
set -eu
list=$1
shift
trap : TERM # the program gets it too. Wait for its end

status=0
# A shard with failed tasks ends with a status other than 0, and the first shard ends long before the last. Neither must
# end the others. These are Slurm's defaults, but a site may have changed them.
srun --kill-on-bad-exit=0 --wait=0 gpu-dispatch run --shard auto --journal run.db --resume --output out.jsonl \
    --stop-grace 25s "$@" {} :::: "$list" || status=$?

# A job that ends within the grace time of a preemption counts as ended, and Slurm does not start it again. Nor does it
# after the time limit. So ask for it, but not if the job was cancelled. 143: ended by SIGTERM.
if [ "$status" -eq 143 ] && scontrol show job "$SLURM_JOB_ID" | grep -q JobState=RUNNING; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
