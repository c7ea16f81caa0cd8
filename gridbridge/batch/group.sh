# Runs a group of a campaign's tasks in one job; gb_tasks, set above, calls next_task for each task. $gb_lanes shells run
# the tasks side by side; each shell runs its share one after another.
# The job's record in the campaign's folder gets a line before a task begins and after its end, with hundredths of a
# second since the job's start. So a killed job leaves which of its tasks ended, which ran and which had not begun.
# shellcheck shell=sh disable=SC2154,SC2329 # set above or by task.sh; called by task.sh
read_time() {
    read -r gb_time _ </proc/uptime && gb_time=$((${gb_time%.*}${gb_time#*.} - ${gb_start:-0}))
}

note() { read_time && echo "$1 $gb_number.$gb_attempt $gb_time $2" >>"$gb_record"; }

next_task() { # the next task does not begin if its walltime may not be left
    gb_turn=$(((${gb_turn:-0} + 1) % gb_lanes))
    [ "$gb_turn" -eq "${gb_lane:-0}" ] || return 0
    read_time
    [ "$gb_time" -le $((100 * gb_group_s)) ] || return
    note begin || die 59
    (
        set_traps # a subshell has none
        die() { note signal "$1" && exit 0 || exit 1; }
        quit() { note exit "$1" && exit 0 || exit 1; }
        run_task "$@"
    )
    gb_status=$?
    case $gb_status in
    0) ;;
    129 | 1[3-9]? | 2??) note signal $((gb_status - 128)) || die 59 ;;
    *) die 59 ;; # no end was noted, for example because the disk is full
    esac
    make_way
}

take_further_tasks() { # takes tasks that root's program has written into the campaign's folder; waits at most gb_wait_s
    read_time
    gb_until=$((gb_time + 100 * gb_wait_s))
    while [ "$gb_time" -le "$gb_until" ] && [ "$gb_time" -le $((100 * gb_group_s)) ]; do
        make_way
        for gb_more in more."$gb_array.$gb_place".*; do
            [ -f "$gb_more" ] || break
            # shellcheck source=/dev/null
            . "./$gb_more" # replaces gb_tasks
            rm -- "$gb_more" || die 59 # so that no task runs twice
            return 0
        done
        sleep 1
        read_time
    done
    return 1
}

run_lanes() {
    gb_lane=$gb_lanes
    while [ "$gb_lane" -gt 1 ]; do
        gb_lane=$((gb_lane - 1))
        (set_traps && gb_tasks) &
    done
    gb_lane=0
    gb_tasks
    until wait; do make_way; done # a signal interrupts wait
}

run_group() {
    read_time && gb_start=$gb_time
    gb_record=$PWD/group.$gb_array.$gb_place
    set -C # a job that its cluster starts a second time runs no task again
    true >"$gb_record" || die 59
    set +C
    unset gb_usage # keeper.pl measures the whole job
    make_way
    run_lanes
    while [ "$gb_wait_s" -gt 0 ] && take_further_tasks; do run_lanes; done
    make_way
    exit 0
}
