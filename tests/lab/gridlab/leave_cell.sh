qdel -f -u alice || :
qconf -dattr hostgroup hostlist alpha-n7 @allhosts || :
qconf -ke alpha-n7 || :
for try in $(seq 50); do
    ! qconf -de alpha-n7 || break
    sleep 0.2
done
qconf -dh alpha-n7
sed -i '/alpha-n7/d' /etc/hosts
