#!/bin/sh
# On alpha-master: site.sh up adds what some fidelity rows ask for to both cells, down takes it away.
# A forced complex keeps every other job out of beta's two extra queues.
cd "$(mktemp -d)" || exit 1
queues='unix:unix_behavior stdin:script_from_stdin'
added=/run/fidelity-added-mpi
config=/etc/gridbridge/gridbridge.toml
beta() { SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455 "$@"; }

add_objects() {
    printf '%s\n' 'name fidelity' 'oticket 0' 'fshare 0' 'acl NONE' 'xacl NONE' >project
    printf '%s\n' 'ckpt_name fidelity' 'interface userdefined' 'ckpt_command NONE' 'migr_command NONE' \
        'restart_command NONE' 'clean_command NONE' 'ckpt_dir /tmp' 'signal NONE' 'when sx' >ckpt
    for cell in env beta; do
        $cell qconf -sprj fidelity >/dev/null 2>&1 || $cell qconf -Aprj project
        $cell qconf -sckpt fidelity >/dev/null 2>&1 || $cell qconf -Ackpt ckpt
    done
    beta qconf -sc >complexes
    grep -q '^fidelity ' complexes || {
        echo 'fidelity fidelity BOOL == FORCED NO 0 0' >>complexes
        beta qconf -Mc complexes
    }
    beta qconf -mattr queue slots 60 all.q
    qconf -mattr queue ckpt_list fidelity transfer-beta
    beta qconf -mattr queue ckpt_list fidelity all.q
    qconf -sq transfer-beta | grep -q '^pe_list .*mpi' || {
        qconf -aattr queue pe_list mpi transfer-beta
        : >$added
    }
}

# shellcheck disable=SC2016 # for alice's shell to expand
raise_job_ids() { # env or beta; above every exit status, so that no row's status is also its job's id
    $1 runuser -u alice -- sh -c 'cd /tmp && PATH=/usr/lib/gridengine:$PATH
        for _ in $(seq 300); do
            id=$(qsub -terse -h -N ids -b y true </dev/null) && [ "$id" -le 300 ] || break
        done
        qdel ids >/dev/null'
}

add_queue() { # name, shell_start_mode
    qconf -sq transfer-beta | sed "s/^shell_start_mode .*/shell_start_mode $2/; s/^ckpt_list .*/ckpt_list NONE/
        s/^complex_values .*/complex_values NONE/; s/^qname .*/qname transfer-$1/" >queue
    qconf -sql | grep -qx "transfer-$1" || qconf -Aq queue
    beta qconf -sq all.q | sed "s/^shell_start_mode .*/shell_start_mode $2/; s/^ckpt_list .*/ckpt_list NONE/
        s/^complex_values .*/complex_values fidelity=TRUE/; s/^qname .*/qname $1.q/" >queue
    beta qconf -sql | grep -qx "$1.q" || beta qconf -Aq queue
    grep -q "queue.transfer-$1" $config ||
        printf '\n[queue.transfer-%s]\ncluster = "beta"\npending_limit = 250\nslots = 200\n' "$1" >>$config
}

remove_queue() {
    qconf -dq "transfer-$1"
    beta qconf -dq "$1.q"
    sed -i "/^\[queue.transfer-$1\]/,/^slots/d" $config
}

remove_objects() {
    [ ! -e $added ] || qconf -dattr queue pe_list mpi transfer-beta
    rm -f $added
    qconf -mattr queue ckpt_list NONE transfer-beta
    beta qconf -mattr queue ckpt_list NONE all.q
    beta qconf -mattr queue slots 2 all.q
    beta qconf -sc | grep -v '^fidelity ' >complexes
    beta qconf -Mc complexes
    for cell in env beta; do
        $cell qconf -dckpt fidelity
        $cell qconf -dprj fidelity
    done
}

case $1 in
up)
    set -e
    add_objects
    raise_job_ids env
    raise_job_ids beta
    for each in $queues; do add_queue "${each%:*}" "${each#*:}"; done
    ;;
down)
    for each in $queues; do remove_queue "${each%:*}"; done
    remove_objects
    ;;
esac
pkill -HUP -u gridbridge -f '[g]ridbridge.transfer.poller.program' || : # it takes the new configuration now
