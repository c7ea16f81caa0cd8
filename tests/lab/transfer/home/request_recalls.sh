for job in {jobs}; do
    transfer=gb.alpha.$job.0.1
    record=$(grep -l "^transfer=$transfer$" /var/spool/gridbridge/m.*) || continue # it ended
    wake=/var/spool/gridbridge/wake/$(sed -n s/^wake=//p $record | tail -1)
    [ -p $wake ] || continue
    mkdir -p {verdicts}/{uid}
    printf 'transfer=%s\noutcome=recall\nreason=recalled from beta\n' $transfer >/tmp/wish
    chown gridbridge: {verdicts}/{uid} /tmp/wish && mv /tmp/wish {verdicts}/{uid}/$transfer
    # an open that may create it is refused of another's FIFO (proc(5), protected_fifos)
    echo | dd of=$wake conv=nocreat,notrunc status=none
done
