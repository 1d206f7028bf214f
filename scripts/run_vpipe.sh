#!/bin/bash
# sbatch scripts/run_vpipe.sh [CONFIG.yml [OPTION OF vpipe train]...]
# Trains on four ranks under Slurm; `sbatch --ntasks=8 ...` takes eight. Submit
# it from the folder that contains build/vpipe, or set VPIPE to the program.
#
# The run folder is runs/slurm-<job>. An interrupted run is resumed from its last
# checkpoint when Slurm starts the job again: after a node was lost, or because this
# script requeued the job. The script does so after SIGUSR1, which Slurm sends two
# minutes before the time limit, and which `scancel --batch --signal=USR1 <job>`
# sends by hand. A plain `scancel` ends the job.
#SBATCH --job-name=vpipe
#SBATCH --ntasks=4
#SBATCH --output=vpipe-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
set -u

: "${SLURM_JOB_ID:?submit this with sbatch}"
config=${1:-configs/bert_tiny.yml}
[ $# -eq 0 ] || shift
program=${VPIPE:-build/vpipe}
run=runs/slurm-$SLURM_JOB_ID
interrupted=3 # vpipe's exit status after a clean checkpoint

# srun starts the ranks if it supports PMIx, which the MPI library uses; otherwise
# mpirun does. Both forward signals to the ranks.
if srun --mpi=list 2>&1 | grep -qw pmix; then
    launch=(srun --mpi=pmix)
else
    launch=(mpirun)
fi

if compgen -G "$run/checkpoints/step-*" >/dev/null; then
    where=(--resume "$run")
else
    # A run without a checkpoint cannot be resumed; its folder is kept.
    [ ! -e "$run" ] || mv "$run" "$run.lost-${SLURM_RESTART_COUNT:-0}"
    where=(--output "$run")
fi

"${launch[@]}" "$program" train "$config" "${where[@]}" "$@" &
ranks=$!
trap 'kill -USR1 $ranks' USR1
status=129
while [ $status -gt 128 ] && kill -0 $ranks 2>/dev/null; do
    wait $ranks # a signal ends it early
    status=$?
done
[ $status -ne $interrupted ] || scontrol requeue "$SLURM_JOB_ID"
exit $status
