# The side that creates the claim file runs the task. The home cluster's claim is a link made by the spool's owner. A
# claim file of the job's own user is left from an earlier start. The claim's name ends with a word of the claim key,
# which only the job's owner can read; every user can read this script. While the disk is full, the job waits.
# shellcheck shell=sh disable=SC2012,SC2154,SC3028,SC3067 # ls -n is lstat; set above, by execd; sh has test -O
gb_folder=${gb_key%/*} gb_claim='' gb_tries=0
gb_find_claim() { # another user's key does not count
    [ -f "$gb_key" ] && [ -O "$gb_key" ] && [ ! -L "$gb_key" ] && read -r gb_word <"$gb_key" && gb_claim=${gb_key%.key}$gb_word
}
gb_owner() { ls -dn -- "$1" | { read -r _ _ gb_uid _ && echo "$gb_uid"; }; }
gb_give_way() { tell outcome=requeue "claim=$1" cause=fenced "reason=fenced: $2"; exit 199; }
set -C # creates the file with O_EXCL, without a process such as ln(1); would open an existing pipe
until gb_find_claim && [ ! -e "$gb_claim" ] && echo "$JOB_ID $HOSTNAME" 2>/dev/null >"$gb_claim"; do
    if [ -L "$gb_claim" ] && [ "$(gb_owner "$gb_claim")" = "$(gb_owner "${gb_folder%/*}/.")" ]; then
        gb_give_way home "home has its claim"
    fi
    [ -L "$gb_claim" ] || [ ! -O "$gb_claim" ] || break
    [ -d "$gb_folder" ] || refuse host "can not claim the job in $gb_folder" 58
    if [ -L "$gb_claim" ] || [ -e "$gb_claim" ]; then
        gb_give_way fenced "uid $(gb_owner "$gb_claim"), who has no claim, made $gb_claim"
    fi
    gb_tries=$((gb_tries + 1))
    if [ "$gb_tries" -gt "${gb_patience:-60}" ]; then
        gb_give_way fenced "can not claim the job in $gb_folder"
    fi
    sleep 1
done
set +C
