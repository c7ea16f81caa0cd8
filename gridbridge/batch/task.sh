# Functions that run one task of a campaign's array; gb_* and the task's parameters are set above. The script ends like
# the task; for a group of tasks group.sh replaces die and quit.
# Exit statuses 99 and 100 would requeue or block the job (sge_shepherd(8)): 199 and 200 replace them, and unused
# signals replace 199 and 200.
# shellcheck shell=sh disable=SC2034,SC2154,SC2172,SC3028,SC3045,SC3067 # set or used above, in checkpoint.sh or by execd
umask 022
gb_preempted=
set_traps() {
    trap 'gb_preempted=1' 56 # sge-methods/preempt announces a preemption; the task then ends by signal 55
    trap : USR2              # the checkpoint signal, sent to all processes of the task
}
set_traps

die() { ulimit -c 0 && kill "-$1" $$; }
quit() { exit "$1"; }
make_way() { case $gb_preempted in 1) die 55 ;; esac }

is_ours_alone() { # checks the present folder, which nobody can exchange any more, and that cd -P followed no link
    case $PWD in "${gb_above%/}/$gb_folder") ;; *) return 1 ;; esac
    [ -O . ] || return 1
    case $(ls -ld .) in d????-??-*) ;; *) return 1 ;; esac
}

belongs_here() { # checks that the folder is not that of another campaign with the same number
    ln -sT -- "$gb_token" .campaign 2>/dev/null # the first task makes the link
    case $(readlink .campaign) in "$gb_token" | '') ;; *) return 1 ;; esac
}

nodes() { # prints a line for each slot, from sge_pe(5)'s file for parallel jobs; OAR writes such a file itself
    case ${OAR_NODEFILE:-} in ?*) return ;; esac
    case ${PE_HOSTFILE:-} in ?*) cat -- "$PE_HOSTFILE" ;; *) echo "${HOSTNAME:-$(uname -n)} $gb_slots" ;; esac |
        while read -r gb_host gb_n _; do
            while [ "$gb_n" -gt 0 ]; do echo "$gb_host" && gb_n=$((gb_n - 1)) || exit; done
        done
}

link_inputs() { # links each input file into the attempt's folder; $gb_carried: the folder of copies, below the home
    while [ "$gb_left" -gt 0 ]; do
        gb_file=$3
        [ -z "$gb_carried" ] || gb_file=$HOME$gb_carried/$2
        gb_size=$(stat -L -c %s -- "$gb_file" 2>/dev/null) gb_right=" of $1 bytes"
        case $1 in -1) gb_right="" gb_size=${gb_size:+-1} ;; esac # a file that a predecessor made may have any size
        [ "$gb_size" = "$1" ] || {
            echo "gridbridge: input $4: $gb_file: missing or changed; expected a file$gb_right" >>"$gb_output.err"
            return 1
        }
        case $4 in */*) mkdir -p -- "$gb_own/${4%/*}" || return 1 ;; esac
        ln -sfT -- "$gb_file" "$gb_own/$4" || return 1
        gb_left=$((gb_left - 1)) && shift 4
    done
}

put() { # makes a successful attempt's folder the task's folder, unless another attempt's already is
    for gb_name in $gb_outputs; do
        [ -e "$gb_own/$gb_name" ] || { echo "gridbridge: the task left no $gb_name" >>"$gb_output.err" && return 1; }
    done
    mv -T -- "$gb_own" "$gb_number" 2>/dev/null || { [ -d "$gb_number" ] && rm -rf -- "$gb_own"; }
}

enter_folder() { # makes the campaign's folder, in the working folder of the tasks, and goes there
    case $gb_directory in '' | "\$HOME"*) gb_directory=$HOME${gb_directory#"\$HOME"} ;; esac
    cd -- "$gb_directory" || { die 57; exit 1; }
    gb_work=$PWD
    cd -P . && gb_above=$PWD
    gb_folder=campaign.$gb_campaign
    mkdir -m 700 -- "$gb_folder" 2>/dev/null
    { cd -P -- "./$gb_folder" && is_ours_alone; } || {
        echo "gridbridge: $gb_work/$gb_folder: expected a folder that only this account owns and can write" >&2
        die 57
        exit 1
    }
    belongs_here || {
        echo "gridbridge: $gb_work/$gb_folder: folder of another campaign $gb_campaign, $(readlink .campaign); move it away" >&2
        die 57
        exit 1
    }
}

run_task() {
    export CIGRI_CAMPAIGN_ID="$gb_campaign" CIGRI_CAMPAIGNID="$gb_campaign" CIGRI_COPY="$gb_copy"
    export CIGRI_JOB_ID="$gb_campaign.$gb_number" CIGRI_JOBID="$gb_campaign.$gb_number"
    export CIGRI_JOB_NAME="$gb_name" CIGRI_JOBNAME="$gb_name" CIGRI_USER="$gb_user" CIGRI_CLUSTER="$gb_cluster"
    export CIGRI_RESOURCES="$gb_slots" CIGRI_WALLTIME="$gb_walltime" CIGRI_WALLTIME_SECONDS="$gb_walltime_s"
    gb_output=$gb_number.$gb_attempt
    rm -f -- "$gb_output.out" "$gb_output.err" "$gb_output.nodes" "$gb_output.usage"
    set -C # never writes to an existing file or link
    { true >"$gb_output.out" 2>"$gb_output.err" && nodes >"$gb_output.nodes"; } || { die 59; exit 1; }
    set +C
    case ${gb_usage:-} in ?*) ln -s -- "$PWD/$gb_output.usage" "$gb_usage" ;; esac # keeper.pl writes this file
    unset gb_usage
    export CIGRI_NODE_FILE="${OAR_NODEFILE:-$PWD/$gb_output.nodes}"
    gb_own=
    case $gb_outputs${gb_inputs:=}${gb_checkpoints:=} in
    ?*) gb_own=$gb_output gb_work=${gb_work%/}/$gb_folder/$gb_own ;;
    esac
    [ -z "$gb_own" ] || mkdir -p -- "$gb_own" || { die 57; exit 1; }
    gb_left=${gb_inputs:-0}
    link_inputs "$@" || { die 54; exit 1; }
    shift $((4 * ${gb_inputs:-0}))
    for gb_name in $gb_outputs $gb_checkpoints; do # a task may write into the folders of its files at once
        case $gb_name in */*) mkdir -p -- "$gb_own/${gb_name%/*}" || { die 57; exit 1; } ;; esac
    done
    gb_trap=
    case $gb_checkpoints in ?*)
        take_checkpoint || { die 57; exit 1; }
        gb_trap="trap : $gb_signal; " # so that the checkpoint signal does not end the shell
        ;;
    esac
    make_way # if preempted before the task began
    case $gb_checkpoints in ?*) time_checkpoints & gb_timer=$! ;; esac
    (
        case $gb_checkpoints in ?*) sh -c 'echo "$PPID"' >"$gb_output.pid" ;; esac
        cd -- "${gb_own:+./}${gb_own:-$gb_work}" || exit 1
        export CIGRI_WORKDIR="$gb_work" CIGRI_WORKING_DIRECTORY="$gb_work" CIGRI_NODEFILE="$CIGRI_NODE_FILE"
        exec sh -c "$gb_trap$gb_exec \"\$@\"" sh "$@"
    ) </dev/null >"$gb_output.out" 2>"$gb_output.err"
    gb_status=$?
    rm -f -- "$gb_output.nodes"
    case $gb_checkpoints in ?*) stop_checkpoints ;; esac
    make_way
    case $gb_status$gb_own in 0?*) put || gb_status=1 ;; esac
    case $gb_status$gb_checkpoints in 0?*) drop_checkpoint ;; esac
    case $gb_status in
    99 | 100) gb_status=$((gb_status + 100)) ;;
    199 | 200) die $((gb_status - 136)) ;;
    129 | 13? | 14[0-4] | 15[2-57-9]) trap - USR2 && die $((gb_status - 128)) ;; # sh's exit statuses for signals
    esac
    quit "$gb_status"
}
