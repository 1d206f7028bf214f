#!/bin/bash
# Two hosts: network namespaces connected by a virtual cable, which share only files. A
# run on both gives the losses of a run on one. When the cable is cut, the report names
# the lost host, and with --restarts the run goes on with the other one.
#   tests/system/two_hosts.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/system/two_hosts.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/tests/system/cluster_lib.sh"
PATH=$PATH:/usr/sbin:/sbin

[ "$(id -u)" = 0 ] || skip "needs root, to make network namespaces"
need ip unshare mpirun

near=vpa$$ # names of hosts, namespaces and ends of the cable
far=vpb$$
net=10.$((100 + $$ / 256 % 100)).$(($$ % 256))
folder=$(mktemp -d) || exit 1

cleanup()
{
    local name

    trap - EXIT
    for name in $near $far; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL
        ip netns del "$name" 2>/dev/null
    done
    wait
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

# ---- Hosts -----------------------------------------------------------------

join_hosts()
{
    local name i=1

    ip netns add $near && ip netns add $far || return 1
    ip link add $near netns $near type veth peer name $far netns $far ||
        return 1
    for name in $near $far; do
        ip -n "$name" addr add "$net.$i/24" dev "$name" || return 1
        ip -n "$name" link set lo up
        ip -n "$name" link set "$name" up
        i=$((i + 1))
    done
}

# on HOST COMMAND...: runs a command on a host
on()
{
    local host=$1

    shift
    # shellcheck disable=SC2016 # for the inner shell
    ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' \
        "$host" "$@"
}

# mpirun uses this agent in place of ssh: agent HOST COMMAND...
write_agent()
{
    cat >"$folder/agent" <<END
#!/bin/sh
case \$1 in
$net.1) host=$near ;;
$net.2) host=$far ;;
*) echo "no host \$1" >&2; exit 1 ;;
esac
shift
exec ip netns exec \$host unshare --uts sh -c "hostname \$host; \$*"
END
    chmod +x "$folder/agent"
}

is_deserted()
{
    [ -z "$(ip netns pids "$1")" ]
}

join_hosts 2>"$folder/ip.log" ||
    skip "no network namespaces here: $(tail -n 1 "$folder/ip.log")"
write_agent
export OMPI_MCA_plm_rsh_agent=$folder/agent
export OMPI_MCA_orte_tmpdir_base=$folder # files of a lost host are removed with it
cd "$folder" || exit 1

# ---- Training --------------------------------------------------------------

# cut STEPS RUN: cuts the cable after STEPS steps.
cut()
{
    until_true 60 "the first steps" has_steps "$2" "$1"
    ip -n $far link set $far down
    start=$SECONDS
}

# named OUTPUT: the report names the lost host
named()
{
    grep -E "^host $net.2 is (cut off|lost)" "$1" ||
        fail "the lost host is not named"
}

no_one_left()
{
    until_true 60 "the end of ranks on the far host" is_deserted $far
    is_deserted $near || fail "processes are left on the near host"
}

write_training 200 >train.yml
cp train.yml both.yml
echo "machines: ['$net.1:0', '$net.1:1', '$net.2:0', '$net.2:1']" >>both.yml
"$program" train train.yml --output one --quiet || fail "the run on one host"
on $near "$program" train both.yml --output two >two.out 2>&1 ||
    fail "the run on two hosts: $(tail -n 1 two.out)"
same_losses one two || fail "losses are not those of one host"
echo "4 ranks on two hosts over $net.0/24: the losses of one host"

on $near "$program" train both.yml --output cut --set total_steps=1000000 \
    >cut.out 2>&1 &
cut 20 cut
wait $!
status=$?
took=$((SECONDS - start))
[ $status -eq 1 ] || fail "status $status after the cable was cut, not 1"
[ $took -le 20 ] || fail "the end came after $took s"
named cut.out
no_one_left
echo "cable cut: ended after $took s, nothing left running"

ip -n $far link set $far up
on $near "$program" train both.yml --output again --restarts 1 \
    --set checkpoint_every=20 >again.out 2>&1 &
cut 50 again
wait $! || fail "status $? with --restarts"
named again.out >/dev/null
same_losses one again || fail "losses after a restart are not those of one host"
no_one_left
echo "cable cut again: went on with the near host, the losses of one host"
