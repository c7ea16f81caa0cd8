# Functions of task.sh for a task with checkpoints; $gb_checkpoints has the files of a checkpoint in the task's folder.
# A checkpoint is complete once the task has replaced all of its files. Each complete checkpoint is a line in
# $gb_output.checkpoints: the hundredths of a second from the signal to its completion, or - without a signal, and bytes.
# shellcheck shell=sh disable=SC2086,SC2154,SC2172 # names have no blanks; set by task.sh; signals without a name
has_checkpoint() { # $1: an attempt's folder
    for gb_name in $gb_checkpoints; do [ -e "$1/$gb_name" ] || return; done
}

take_checkpoint() { # links the checkpoint of the last earlier attempt with a checkpoint into this attempt's folder
    rm -f -- "$gb_output.checkpoints" "$gb_output.pid"
    unset GRIDBRIDGE_CHECKPOINT
    gb_earlier=$gb_attempt gb_last=''
    while gb_earlier=$((gb_earlier - 1)) && [ "$gb_earlier" -gt 0 ]; do
        has_checkpoint "$gb_number.$gb_earlier" || continue
        for gb_name in $gb_checkpoints; do
            gb_file=$gb_number.$gb_earlier/$gb_name gb_link=${gb_own:?}/$gb_name
            rm -rf -- "$gb_link"
            cp -al -T -- "$gb_file" "$gb_link" 2>/dev/null || cp -a -T -- "$gb_file" "$gb_link" || return
        done
        export GRIDBRIDGE_CHECKPOINT=1
        list_checkpoint
        gb_last=$gb_list
        break
    done
}

list_checkpoint() { gb_list=$(cd -- "./$gb_own" && stat -c '<%n %i %.9Y %s>' -- $gb_checkpoints 2>/dev/null); }

is_checkpoint_new() { # whether all files differ from those in $gb_last
    list_checkpoint || return
    for gb_name in $gb_checkpoints; do
        gb_file=${gb_list#*"<$gb_name "}
        case $gb_last in *"<$gb_name ${gb_file%%>*}>"*) return 1 ;; esac
    done
}

note_checkpoint() { # also removes the checkpoints of earlier attempts, unless such an attempt may still run
    gb_bytes=$(cd -- "./$gb_own" && du -bcs -- $gb_checkpoints | tail -n 1)
    echo "$1 ${gb_bytes%%[!0-9]*}" >>"$gb_output.checkpoints" && gb_last=$gb_list
    while [ "$gb_copy" -eq 0 ] && [ "$gb_earlier" -gt 0 ]; do
        for gb_name in $gb_checkpoints; do rm -rf -- "$gb_number.$gb_earlier/$gb_name"; done
        gb_earlier=$((gb_earlier - 1))
    done
}

read_uptime() { # in hundredths of a second
    read -r gb_uptime _ </proc/uptime && gb_uptime=${gb_uptime%.*}${gb_uptime#*.}
}

send_checkpoint_signal() { # to the shell of the command and its programs, or to a program that replaced the shell
    read -r gb_program <"/proc/$gb_pid/comm" || return
    case $gb_program in sh) read -r gb_pids <"/proc/$gb_pid/task/$gb_pid/children" ;; *) gb_pids='' ;; esac
    kill -s "$gb_signal" -- "$gb_pid" $gb_pids
}

time_checkpoints() { # runs beside the task
    trap 'kill -s KILL "$!"; wait "$!"; exit' TERM # a just forked sleep may still have the trap of this shell
    trap 'gb_is_sent=1' USR2 # sge-methods/preempt sends the signal to all processes of the task
    trap '' 56 # announces a preemption to task.sh (the signal has no name)
    while gb_is_sent=''; do
        sleep "$gb_checkpoint_s" &
        wait "$!"
        read -r gb_pid <"$gb_output.pid" || continue
        read_uptime
        gb_began=$gb_uptime
        case $gb_is_sent in '')
            list_checkpoint && gb_last=$gb_list
            send_checkpoint_signal
            ;;
        esac
        until is_checkpoint_new; do
            read_uptime
            [ $((gb_uptime - gb_began)) -lt $((100 * gb_checkpoint_s)) ] || continue 2
            kill -s 0 -- "$gb_pid" || continue 2
            sleep 0.5
        done
        read_uptime
        note_checkpoint $((gb_uptime - gb_began))
    done
} 2>/dev/null

stop_checkpoints() { # after the task's end
    kill -s TERM "$gb_timer" && wait "$gb_timer"
    rm -f -- "$gb_output.pid"
    [ -s "$gb_output.checkpoints" ] || ! is_checkpoint_new || note_checkpoint -
} 2>/dev/null

drop_checkpoint() { # a successful task needs no checkpoint
    for gb_name in $gb_checkpoints; do
        case " $gb_outputs " in *" $gb_name "*) ;; *) rm -rf -- "${gb_number:?}/$gb_name" ;; esac
    done
}
