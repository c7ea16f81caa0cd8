# The wrapper of a remote job; gb_* and gb_job, set above, are the values of one job. The wrapper runs the job as at
# home, writes the end message into the spool if this host has the spool, and ends like the job. Exit statuses 99 and
# 100 would requeue or block the remote job (sge_shepherd(8)): 199 and 200 replace them, and unused signals replace
# 199 and 200.
# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2094,SC2154,SC3028,SC3045 # set or used above, set by execd; every sh has ulimit -c
umask 022 && trap : HUP INT TERM USR1 USR2 XCPU XFSZ # Grid Engine signals the whole process group

tell() { # write the end message with some more lines; an empty line ends the message
    [ -n "$gb_spool" ] || return 0
    times >&5 # in this shell, because a pipe would measure a child
    { read -r _ && read -r user system; } <&6
    read -r now _ </proc/uptime && read -r token </proc/sys/kernel/random/uuid && set -C # a new file only
    printf '%s\n' kind=ended "transfer=$gb_transfer" "remote_id=$JOB_ID" "host=$HOSTNAME" "$@" \
        "wallclock_s=$((${now%.*} - ${gb_began%.*}))" "user_s=$user" "system_s=$system" \
        '' 2>/dev/null >"$gb_spool/w.$token" || { rm -f "$gb_spool/w.$token"; false; }
}

die() { ulimit -c 0 && trap - HUP INT TERM USR1 USR2 XCPU XFSZ && kill "-$1" $$ && false; } # without a core dump
refuse() { # to run the job, with cause and reason of the failure
    tell outcome=error "cause=$1" "reason=$2 on $HOSTNAME" && [ -n "$gb_spool" ] || die "$3" # the signal shows cause and reason
    exit 200
}

set -f && read -r gb_began gb_rest </proc/uptime # not into _, which shows the kind of shell below
read -r gb_started </proc/$$/cmdline # `-sh`: /etc/profile has changed the environment
case ${_+adds}${SHLVL+adds}$gb_started in adds* | -*) # as bash and ksh do: restore execd's environment
    IFS='
'
    set -- $(tr '\n\0' '\1\n' <"/proc/$$/environ")
    unset IFS
    for word; do
        shift
        case $word in
        TMPDIR=* | PATH=* | HOSTNAME=*) eval "${word%%=*}=\${word#*=}" ;;
        *"$gb_soh"*) word=$(printf '%s' "$word" | tr '\1' '\n') ;;
        esac
        set -- "$@" "$word"
    done
    set -- -i -- "$@"
esac
gb_private=$TMPDIR/.gridbridge gb_script=$TMPDIR/.gridbridge/$gb_name
# Another user may have made TMPDIR before execd changed its owner, so an existing .gridbridge is moved aside.
[ ! -L "$TMPDIR" ] && chmod go-w "$TMPDIR" && { mkdir -m 700 "$gb_private" || { mv "$gb_private" "$gb_private.$$" && mkdir -m 700 "$gb_private"; }; } &&
    echo - >"$gb_private/killed" && echo - >"$gb_private/times" || die 58 || exit 200 # reserves disk space
# The files stay open, because the job may remove TMPDIR; into `killed` the shell writes what killed the job.
exec 2<>"$gb_private/killed" 4<"$gb_private/killed" 5<>"$gb_private/times" 6<"$gb_private/times"
{ gb_write_script && chmod 755 "$gb_script"; } || refuse host "can not write the script to $TMPDIR" 58
true >>"$gb_stdout" || refuse job "can not append to standard output" 59
true >>"$gb_stderr" || refuse job "can not append to standard error" 60
[ -r "$gb_stdin" ] || refuse job "can not read standard input" 61
[ -z "$gb_needs" ] || gb_found || refuse job "can not find $gb_needs" 62
gb_job "$@"; status=$?
trap '' HUP INT TERM USR1 USR2 XCPU XFSZ # the end message must be written
if [ "$status" -gt 128 ] && { { read -r gb_killed <&4 && [ "$gb_killed" != - ]; } || [ "$status" = 130 ] || [ "$status" = 141 ]; }; then # shells don't report INT and PIPE
    tell outcome=signal "signal=$((status - 128))"
    die $((status - 128))
fi
tell outcome=exit "exit_status=$status"
case $status in 99 | 100) status=$((status + 100)) ;; 199 | 200) die $((status - 136)) || status=1 ;; esac; exit "$status"
