#!/bin/bash
# sbatch scripts/run_vpipe.sh [CONFIG.yml [OPTION OF vpipe train]...]
# Trains on four ranks under Slurm; `sbatch --ntasks=8 ...` takes eight. Submit
# it from the folder that build/vpipe is in, or name the program by VPIPE.
#
# The run is in runs/slurm-<job>. One that was interrupted goes on from its last
# checkpoint when Slurm starts the job again: after a lost node, or because it
# asked for that itself. It does after SIGUSR1, which comes two minutes before
# the time limit, and by hand with `scancel --batch --signal=USR1 <job>`. A plain
# `scancel` ends it.
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

# srun starts the ranks where it speaks PMIx, as the MPI library does. Both pass
# signals on to them.
if srun --mpi=list 2>&1 | grep -qw pmix; then
    launch=(srun --mpi=pmix)
else
    launch=(mpirun)
fi

if compgen -G "$run/checkpoints/step-*" >/dev/null; then
    where=(--resume "$run")
else
    # What there is of a run without a checkpoint is kept, but of no use.
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
