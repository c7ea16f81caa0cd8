# The job runs once home says so, in a file that only home's service makes. Signals wait, as the
# job would hear them; in a subshell, so that nothing of this is taken for the job's end.
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
