#!/bin/bash
# vpipe starts its ranks itself: losses equal those of threads, signals stop the run
# cleanly, an error ends all ranks, containers work, and a run survives a lost host.
#   tests/system/launch.sh PROGRAM TOOLS
# TOOLS is the folder of libbadfiles.so.
set -u

program=$(realpath "${1:?usage: tests/system/launch.sh PROGRAM TOOLS}")
shim=$(realpath "${2:?usage: tests/system/launch.sh PROGRAM TOOLS}")/libbadfiles.so
. "$(dirname "$0")/cluster_lib.sh"
. "$(dirname "$0")/disk_lib.sh"
need mpirun
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1

cat >model.yml <<'END'
model_type: bert
device: cpu
vocab: 264
layers: 4
hidden: 16
heads: 2
seq_length: 16
batch_size: 4
threads_per_stage: 1
synthetic_data: true
stages: 2
accumulation_steps: 4
total_steps: 40
checkpoint_every: 20
watchdog_seconds: 10
distributed_backend: mpi
END
checks=0

# run STATUS OUTPUT OPTION...: trains, checks the exit status, and that no
# process is left
run() {
    local want=$1 output=$2 got
    shift 2
    checks=$((checks + 1))
    timeout 120 "$program" train model.yml --output "$folder/$output" "$@" \
        >out 2>err </dev/null
    got=$?
    [ $got -eq "$want" ] || note_failure "status $got, not $want: $output $*"
    check_ended "$output"
}

# start OUTPUT OPTION...: starts a run and returns after its first step
start() {
    local output=$1
    shift
    checks=$((checks + 1))
    "$program" train model.yml --output "$folder/$output" \
        --set total_steps=100000 "$@" >out 2>err </dev/null &
    child=$!
    for _ in $(seq 600); do
        [ -s "$output/metrics.jsonl" ] && break
        sleep 0.05
    done
}

# ended STATUS OUTPUT: waits for the run of `start` and checks its status
ended() {
    local got
    wait $child
    got=$?
    [ $got -eq "$1" ] || note_failure "status $got, not $1: $2"
    check_ended "$2"
}

# check_ended OUTPUT: no process of the run is left after at most 10 s
check_ended() {
    local mine="--output $folder/$1( |\$)"
    for _ in $(seq 100); do
        pgrep -f -- "$mine" >/dev/null || return
        sleep 0.1
    done
    note_failure "processes are left: $(pgrep -fa -- "$mine")"
}

# find_rank OUTPUT PATTERN: process ids of the ranks whose number matches
find_rank() {
    local pid
    for pid in $(pgrep -f -- "--output $folder/$1( |\$)"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] &&
            tr '\0' '\n' <"/proc/$pid/environ" |
            grep -q "^OMPI_COMM_WORLD_RANK=$2\$" && echo "$pid"
    done
}

# variable PID NAME: value of an environment variable of a process
variable() {
    tr '\0' '\n' <"/proc/$1/environ" | sed -n "s/^$2=//p"
}

# listens PID: local addresses on which a process accepts TCP connections
listens() {
    readlink "/proc/$1/fd/"* | sed -n 's/^socket:\[\([0-9]*\)\]$/\1/p' |
        awk 'NR == FNR { mine[$1]; next } $4 == "0A" && $10 in mine { print $2 }' \
            - /proc/net/tcp /proc/net/tcp6
}

# note_folders PID: stores the temporary folders of the rank's job in `folders`
note_folders() {
    local name path
    folders=()
    for name in VPIPE_SUPERVISOR OMPI_MCA_orte_tmpdir_base \
        OMPI_MCA_btl_vader_backing_directory; do
        path=$(variable "$1" $name)
        [ $name != VPIPE_SUPERVISOR ] || path=${path%/*}
        [[ $path == */vpipe-$(id -u)-?????? && -d $path ]] ||
            note_failure "$name is not in a folder of the job's own: '$path'"
        folders+=("$path")
    done
}

# check_removed: the folders of note_folders are gone
check_removed() {
    local path
    for path in "${folders[@]}"; do
        [ ! -e "$path" ] || note_failure "$path is left"
    done
}

# n_steps FILE: number of lines with the result of a step
n_steps() {
    grep -c '"loss"' "$1"
}

# trace_of RUN: steps, minibatches and losses, without forecasts, whose times
# are measured
trace_of() {
    grep -v '"event": "forecast"' "$1/metrics.jsonl" | cut -d, -f1-4
}

# same RUN RUN: the same losses, to the last bit
same() {
    cmp -s <(trace_of "$1") <(trace_of "$2") ||
        note_failure "$1 and $2 differ"
}

# has FILE TEXT: the file contains the text
has() {
    grep -qF -- "$2" "$1" || note_failure "no '$2' in $1"
}

# ---- Ranks as processes equal threads ---------------------------------------
run 0 threads --set distributed_backend=local
run 0 ranks
same ranks threads
has out 'model     bert'
[ ! -s err ] || note_failure 'stderr is not empty'
grep -q "$(printf '\033')" out && note_failure 'escape sequences in a file'
has ranks/machinefile 'localhost slots=2'
has ranks/command_history.log ' -n 2 '
has ranks/command_history.log "vpipe train model.yml"
grep -q 'VPIPE_SUPERVISOR=' ranks/command_history.log &&
    note_failure 'the token is in a file'

# ---- Output that cannot be written ------------------------------------------
checks=$((checks + 2))
timeout 120 "$program" train model.yml --output "$folder/full" >/dev/full \
    2>err </dev/null
status=$?
[ $status -eq 1 ] || note_failure "status $status with a full disk behind stdout"
[ "$(cat err)" = 'vpipe: cannot write the output: No space left on device; '\
'free some space' ] || note_failure "not one line: $(cat err)"
same full threads
# A closed pipe stops the run cleanly.
timeout 120 "$program" train model.yml --output "$folder/unread" \
    --set total_steps=100000 2>err </dev/null | head -n 1 >out
status=${PIPESTATUS[0]}
[ "$status" -eq 3 ] || note_failure "status $status when the reader has gone"
[ -n "$(find unread/checkpoints -name manifest.json)" ] ||
    note_failure 'no checkpoint when the reader has gone'
[ "$(cat err)" = "vpipe: the output is not read any more (closed pipe): the run\
 was saved and stopped; go on with --resume $folder/unread, or send the output\
 to a file" ] || note_failure "the reader has gone: $(cat err)"
check_ended unread

# ---- Closed descriptors -----------------------------------------------------
checks=$((checks + 1))
timeout 120 "$program" train model.yml --output "$folder/closed" 0<&- 1>&- 2>&-
status=$?
[ $status -eq 0 ] || note_failure "status $status with closed descriptors"
same closed threads

# ---- Resuming from a checkpoint ---------------------------------------------
# goes_on STATUS OPTION...: trains on to step 60 and checks the status
goes_on() {
    local want=$1 got
    shift
    checks=$((checks + 1))
    timeout 120 "$program" train model.yml --quiet --set total_steps=60 "$@" \
        >out 2>err </dev/null
    got=$?
    [ $got -eq "$want" ] || note_failure "status $got, not $want: $*"
}
cp -r ranks old
goes_on 2 --resume ranks/checkpoints/step-20
has err 'ranks went on to step 40; to go on from step 20, name another folder'
diff -r ranks old >/dev/null || note_failure 'a refused run changed its folder'
goes_on 0 --resume ranks/checkpoints/step-40
[ "$(n_steps ranks/metrics.jsonl)" -eq 60 ] || note_failure 'it did not go on'
goes_on 0 --resume old
same ranks old
diff -r ranks/checkpoints/step-40 old/checkpoints/step-40 >/dev/null ||
    note_failure 'a run was made in a checkpoint'

# ---- Mistakes are reported before a rank is started -------------------------
cp -r ranks ranks.now
run 2 bad --set memory_limit=1k
has err 'memory_limit'
[ ! -e bad/command_history.log ] || note_failure 'something was started'
run 2 bad --set network_interface=nosuch0
has err "--set: key 'network_interface': this machine has no interface 'nosuch0'"
has err ' that is up; use one of '
run 2 bad --set container=x.sif
has err "--set: key 'container': image 'x.sif' needs apptainer or singularity"
run 2 ranks
has err '/ranks holds a run already; choose another --output'
diff -r ranks ranks.now >/dev/null ||
    note_failure 'a refused run changed another'
run 2 bad --set distributed_backend=local --restarts 2
has err "'--restarts' works where vpipe starts the ranks itself"
mkdir no_bin
PATH=$folder/no_bin "$program" train model.yml --output no_mpirun >out 2>err
[ $? -eq 2 ] || note_failure 'a missing mpirun'
[ "$(cat err)" = "mpirun: is not in PATH, and ranks that are processes need it;\
 install Open MPI (Debian: openmpi-bin), or set distributed_backend: local" ] ||
    note_failure "not one line about a missing mpirun: $(cat err)"
[ ! -e no_mpirun ] || note_failure 'a run without mpirun left a folder'

# ---- An unreachable host gives one line with cause and remedy ----------------
cat >no_agent <<'END'
#!/bin/sh
echo "ssh: connect to host $1 port 22: No route to host" >&2
echo 'and more' >&2
exit 255
END
chmod +x no_agent
OMPI_MCA_plm_rsh_agent=$folder/no_agent run 1 unreachable --quiet \
    --set "machines=['localhost:0', 'b:0']"
[ "$(cat err)" = "no rank started: ssh: connect to host b port 22: No route to\
 host; see that ssh reaches every host in machines without a password, or leave\
 out the one that it does not reach" ] ||
    note_failure "not one line about a host out of reach: $(cat err)"

# ---- A small disk, to which all ranks write ---------------------------------
big=$program
if use_small_disk 4700k; then # holds three checkpoints
    run 2 small/run --set checkpoint_every=5
    has err 'not enough space: 4 checkpoints of '
    run 0 small/run --set checkpoint_every=5 --set keep_checkpoints=2
    program=$big
fi

# ---- Containers: a fake tool that records its arguments ---------------------
mkdir bin
cat >bin/apptainer <<'END'
#!/bin/sh
printf '%s ' "$@" >>"$TAKEN_DOWN"
while [ "$1" != x.sif ]; do shift; done
shift
exec "$@"
END
chmod +x bin/apptainer
ln -s "$program" bin/vpipe
for library in "$(dirname "$program")"/libvpipe_*.so; do
    ln -s "$library" bin/
done
TAKEN_DOWN=$folder/taken PATH=$folder/bin:$PATH run 0 contained \
    --set container=x.sif
same contained threads
has taken "exec --"
has taken " x.sif vpipe train model.yml "
has contained/command_history.log "apptainer exec "

# ---- Signals ----------------------------------------------------------------
for signal in TERM USR1; do
    start "stop$signal" --quiet
    rank=$(find_rank "stop$signal" 1)
    note_folders "$rank"
    for pid in $child $rank; do
        [ -z "$(listens "$pid")" ] ||
            note_failure "process $pid listens at $(listens "$pid")"
    done
    token=$(variable "$rank" VPIPE_SUPERVISOR)
    token=${token##*:}
    [ ${#token} -eq 64 ] || note_failure "no token: '$token'"
    echo "$token" >token
    grep -alFf token /proc/[0-9]*/cmdline 2>/dev/null &&
        note_failure 'the token is in a command line'
    kill -$signal $child
    ended 3 "stop$signal"
    check_removed
    [ ! -s err ] || note_failure 'a clean stop writes to stderr'
    last=$(n_steps "stop$signal/metrics.jsonl")
    [ -e "stop$signal/checkpoints/step-$last/manifest.json" ] ||
        note_failure "no checkpoint of step $last"
done
# mpirun sends SIGTERM to a rank that is slow to exit after another rank has
# exited with status 3. It does not count as a second signal of the user.
LD_PRELOAD=$shim BADFILES_RANK=1 BADFILES_EXIT_MS=1500 start stopslow --quiet
kill -TERM $child
ended 3 stopslow
[ ! -s err ] || note_failure 'a clean stop with a slow exit writes to stderr'
# Two signals at once to one rank only.
start stoprank --quiet
rank=$(pgrep -P "$(pgrep -P $child mpirun)" | tail -1)
kill -TERM "$rank"
kill -INT "$rank"
ended 3 stoprank
[ -n "$(find stoprank/checkpoints -name manifest.json)" ] ||
    note_failure 'no checkpoint after a signal to a rank'

# ---- Truncating the file of a rank's actions --------------------------------
start cut --quiet
: >cut/actions.0
: >cut/actions.1
steps=$(n_steps cut/metrics.jsonl)
for _ in $(seq 200); do
    [ "$(n_steps cut/metrics.jsonl)" -gt $((steps + 20)) ] && break
    sleep 0.05
done
kill -TERM $child
ended 3 cut
[ ! -s err ] || note_failure "a truncated file of actions: $(cat err)"

# ---- The launcher is killed -------------------------------------------------
start orphans --quiet
kill -KILL $child
wait $child 2>/dev/null
check_ended orphans

# ---- Launcher and mpirun are killed: the next job cleans up -----------------
start killed --quiet
note_folders "$(find_rank killed 0)"
{
    kill -KILL $child "$(pgrep -P $child mpirun)"
    wait $child
} 2>/dev/null
check_ended killed
run 0 next --quiet
check_removed

# ---- mpirun takes long to exit ----------------------------------------------
# Open MPI's mpirun crashes if it gets SIGTERM while it exits.
cat >bin/mpirun <<END
#!/bin/bash
trap 'echo >$folder/told' TERM
$(command -v mpirun) "\$@" &
wait \$!
status=\$?
sleep 3 # more than it has after it was told
exit \$status
END
chmod +x bin/mpirun
PATH=$folder/bin:$PATH start slow --quiet
find_rank slow 1 | xargs kill -KILL
ended 1 slow
has err 'rank 1 on host'
has err 'ended by signal 9'
[ ! -e told ] || note_failure 'mpirun was told to end while it did'
rm bin/mpirun

# ---- A rank's own error is not retried --------------------------------------
run 1 nan --quiet --restarts 3 --set optimizer=sgd --set learning_rate=100 \
    --set grad_clip=0 --set learning_rate_policy=constant --set total_steps=2000
has err 'failed: '
[ "$(grep -c '^mpirun' nan/command_history.log)" -eq 1 ] ||
    note_failure 'an error was tried again'

# ---- A host is lost: the run goes on with the others ------------------------
if [ "$(id -u)" -eq 0 ] && unshare --uts true 2>/dev/null; then
    cat >agent <<'END'
#!/bin/sh
host=$1
shift
exec unshare --uts sh -c "hostname $host; $*"
END
    chmod +x agent
    export OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_MCA_btl=self,tcp
    # The hosts do not have the plugin.
    mkdir alone
    cp "$program" alone/vpipe
    program=$folder/alone/vpipe run 2 no_plugin --quiet \
        --set "machines=['a:0', 'b:0']"
    grep -qE '^rank [01] on host [ab] failed: transport mpi: .* cannot be loaded' \
        err || note_failure "no line about a missing plugin: $(cat err)"
    # Open MPI's launcher prints a warning if a child was faster than its
    # parent.
    [ "$(grep -vc ' plm:rsh: Warning: setpgid' err)" -eq 1 ] ||
        note_failure "not one line about a missing plugin: $(cat err)"
    hosts="machines=['a:0', 'b:0', 'b:1']"
    start hosts --quiet --restarts 1 --max-steps 120 --set stages=3 \
        --set "$hosts"
    for _ in $(seq 200); do
        [ -d hosts/checkpoints/step-20 ] && break
        sleep 0.05
    done
    find_rank hosts '[12]' | xargs kill -KILL
    ended 0 hosts
    has err 'host b is lost: all its 2 ranks are gone'
    has hosts/config.yml 'machines: ["a:0"]'
    unset OMPI_MCA_plm_rsh_agent OMPI_MCA_btl
    run 0 whole --quiet --set total_steps=100000 --max-steps 120 \
        --set stages=3 --set distributed_backend=local
    same hosts whole
else
    echo 'not tried, needs root: a host that is lost'
fi

echo "$checks checks, $failures failures"
[ $failures -eq 0 ]
