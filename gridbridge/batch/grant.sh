# The job starts when the home cluster's service has made the grant file. Signals are ignored in a subshell until
# then, so that no signal is taken for the job's end.
# shellcheck shell=sh disable=SC2154 # set above
(
    trap '' HUP INT TERM USR1 USR2 XCPU XFSZ
    while [ ! -e "$gb_claim" ]; do
        read -r now _ </proc/uptime
        [ $((${now%.*} - ${gb_began%.*})) -lt "$gb_patience" ] || exit 1
        sleep 1
    done
) 2>/dev/null || {
    tell outcome=requeue claim=fenced cause=ungranted "reason=fenced: no grant came within $gb_patience s"
    exit 199
}
