#!/bin/bash
# A real Slurm on this machine: `sbatch scripts/run_vpipe.sh` trains four stages,
# `scancel --signal` makes a checkpoint, the requeued job resumes, and the losses
# equal those of an uninterrupted run.
#   tests/system/slurm.sh build/vpipe
# Starts munged, slurmctld and slurmd in a scratch folder, with their own key, ports
# and sockets, and ends them in any case.
set -u

program=$(realpath "${1:?usage: tests/system/slurm.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/tests/system/cluster_lib.sh"
PATH=$PATH:/usr/sbin:/sbin

[ "$(id -u)" = 0 ] || skip "needs root, to run munged and slurmd"
need munged slurmctld slurmd sbatch srun

folder=$(mktemp -d) || exit 1
daemons=()
export SLURM_CONF=$folder/slurm.conf

# leftovers: running processes that have our configuration in their environment.
leftovers()
{
    grep -slzx "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ | cut -d / -f 3
}

cleanup()
{
    trap - EXIT
    scancel --user=root 2>/dev/null
    for ((i = 0; i < 50; i++)); do
        [ -n "$(squeue -h 2>/dev/null)" ] || break
        sleep 0.2
    done
    [ ${#daemons[@]} -eq 0 ] || kill "${daemons[@]}" 2>/dev/null
    wait
    leftovers | while read -r pid; do
        [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null
    done
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

# ---- A cluster -------------------------------------------------------------

start()
{
    "$@" >>"$folder/daemons.log" 2>&1 &
    daemons+=($!)
}

# A requeued job waits until its credentials expire: cred_expire.
write_config()
{
    local host port

    host=$(hostname -s)
    port=$((20000 + $$ % 20000))
    cat >"$SLURM_CONF" <<END
ClusterName=vpipe
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=4
PartitionName=test Nodes=ALL Default=YES
END
}

is_idle()
{
    [ "$(sinfo -h -o %T)" = idle ]
}

start_cluster()
{
    mkdir "$folder/state" "$folder/spool"
    chmod 755 "$folder"
    head -c 1024 /dev/urandom >"$folder/munge.key"
    chmod 600 "$folder/munge.key"
    write_config
    start munged --foreground --key-file="$folder/munge.key" \
        --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
    until_true 10 "munged" test -S "$folder/munge.socket"
    start slurmctld -D -c
    start slurmd -D -c
    until_true 30 "the cluster" is_idle
    echo "slurm $(sinfo --version | cut -d ' ' -f 2) is up; it offers" \
        "$(srun --mpi=list 2>&1 | grep -owE 'pmix|pmi2' | sort -u | paste -sd,)"
}

state()
{
    scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'
}

has_ended()
{
    case $(state "$1") in
    PENDING | RUNNING | COMPLETING) return 1 ;;
    esac
}

# resumes: the steps of the checkpoints from which the job was resumed.
resumes()
{
    sed -n 's/.*Resumed from checkpoint step \([0-9]*\).*/\1/p' \
        "vpipe-$job.out"
}

resumed()
{
    [ "$(resumes | wc -l)" -ge "$1" ]
}

# ---- Training --------------------------------------------------------------

start_cluster
cd "$folder" || exit 1
write_training 500 >train.yml
"$program" train train.yml --output whole --quiet ||
    fail "the run that is not interrupted"

export VPIPE=$program
job=$(sbatch --parsable "$source/scripts/run_vpipe.sh" train.yml) ||
    fail "sbatch"
run=runs/slurm-$job
until_true 60 "the first steps" has_steps "$run" 20
scancel --signal=USR1 "$job" # to all ranks
# Slurm may check its queue only once a minute.
until_true 120 "the requeue" resumed 1
scancel --batch --signal=USR1 "$job" # to the script, as before a time limit
until_true 240 "the rest of the job" has_ended "$job"

[ "$(state "$job")" = COMPLETED ] || fail "the job ended as $(state "$job")"
resumed 2 || fail "the job was not interrupted and resumed twice"
same_losses whole "$run" || fail "losses are not those of an unbroken run"
echo "4 ranks, requeued at steps $(resumes | paste -sd ' ') of 500:" \
    "the same losses"
