# The remote half of a transfer. What stands above was written for one job: gb_* and gb_job.
# It runs the job as it would have run at home and tells its end twice: by a message in the
# spool, where this host sees that, and by its own end. 99 and 100 would requeue or block the remote
# job (sge_shepherd(8)): 199 and 200 stand for them, and for those signals that nobody sends.
# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2094,SC2154,SC3028,SC3045 # set or used above, set by execd; every sh has ulimit -c
umask 022 && trap : HUP INT TERM USR1 USR2 XCPU XFSZ # Grid Engine signals the group: the job hears them itself

tell() { # the lines of a message that differ; its time is the file's, and an empty line ends it
    [ -n "$gb_spool" ] || return 0
    times >&5 # in this shell: a pipe's would be a child's
    { read -r _ && read -r user system; } <&6
    read -r now _ </proc/uptime && read -r token </proc/sys/kernel/random/uuid && set -C # nobody's file but a new one
    printf '%s\n' kind=ended "transfer=$gb_transfer" "remote_id=$JOB_ID" "host=$HOSTNAME" "$@" \
        "wallclock_s=$((${now%.*} - ${gb_began%.*}))" "user_s=$user" "system_s=$system" \
        '' 2>/dev/null >"$gb_spool/w.$token" || { rm -f "$gb_spool/w.$token"; false; }
}

die() { ulimit -c 0 && trap - HUP INT TERM USR1 USR2 XCPU XFSZ && kill "-$1" $$ && false; } # leaving no core
refuse() { # for a cause, what can't be opened or found here: an administrator has to look
    tell outcome=error "cause=$1" "reason=$2 on $HOSTNAME" && [ -n "$gb_spool" ] || die "$3" # that signal tells both
    exit 200
}

set -f && read -r gb_began gb_rest </proc/uptime # not into _, which tells of the shell below
read -r gb_started </proc/$$/cmdline # `-sh`: /etc/profile and its kin have changed our environment
case ${_+adds}${SHLVL+adds}$gb_started in adds* | -*) # as do bash and ksh: take what execd made
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
# Anybody may have made TMPDIR before execd, which then made it ours as it was: what lies there is moved aside.
[ ! -L "$TMPDIR" ] && chmod go-w "$TMPDIR" && { mkdir -m 700 "$gb_private" || { mv "$gb_private" "$gb_private.$$" && mkdir -m 700 "$gb_private"; }; } &&
    echo - >"$gb_private/killed" && echo - >"$gb_private/times" || die 58 || exit 200 # room that a full disk leaves them
# Kept open, for the job may remove its TMPDIR; in the first the shell says what killed its child.
exec 2<>"$gb_private/killed" 4<"$gb_private/killed" 5<>"$gb_private/times" 6<"$gb_private/times"
{ gb_write_script && chmod 755 "$gb_script"; } || refuse host "can not write the script to $TMPDIR" 58
true >>"$gb_stdout" || refuse job "can not append to standard output" 59
true >>"$gb_stderr" || refuse job "can not append to standard error" 60
[ -r "$gb_stdin" ] || refuse job "can not read standard input" 61
[ -z "$gb_needs" ] || gb_found || refuse job "can not find $gb_needs" 62
gb_job "$@"; status=$?
trap '' HUP INT TERM USR1 USR2 XCPU XFSZ # the end must be told
if [ "$status" -gt 128 ] && { { read -r gb_killed <&4 && [ "$gb_killed" != - ]; } || [ "$status" = 130 ] || [ "$status" = 141 ]; }; then # a shell is silent about INT and PIPE
    tell outcome=signal "signal=$((status - 128))"
    die $((status - 128))
fi
tell outcome=exit "exit_status=$status"
case $status in 99 | 100) status=$((status + 100)) ;; 199 | 200) die $((status - 136)) || status=1 ;; esac; exit "$status"
