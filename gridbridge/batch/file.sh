# Who creates the claim runs the job: we, or home, whose claim is a link to itself. One of ours is of
# an earlier start. A full disk is waited for; then the job gives way, as if home had claimed it.
# shellcheck shell=sh disable=SC2154,SC3028,SC3067 # set above, by execd; sh has test -O
set -C # O_EXCL, and no process: ln(1) would be one
gb_tries=0
until echo "$JOB_ID $HOSTNAME" 2>/dev/null >"$gb_claim"; do
    if [ -L "$gb_claim" ]; then
        tell outcome=requeue claim=home cause=fenced "reason=fenced: home has its claim"
        exit 199
    fi
    [ ! -O "$gb_claim" ] || break
    if [ -e "$gb_claim" ] || [ ! -d "${gb_claim%/*}" ]; then
        refuse host "can not claim the job in ${gb_claim%/*}" 58
    fi
    gb_tries=$((gb_tries + 1))
    if [ "$gb_tries" -gt "${gb_patience:-60}" ]; then
        tell outcome=requeue claim=fenced cause=fenced "reason=fenced: can not claim the job in ${gb_claim%/*}"
        exit 199
    fi
    sleep 1
done
set +C
