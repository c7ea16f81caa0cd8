echo '10.77.0.10 alpha-master' >>/etc/hosts
groupadd -g 10001 alice && useradd -M -u 10001 -g 10001 -s /bin/bash alice
for folder in /home /opt/gridbridge /var/lib/gridengine/alpha/common; do
    mkdir -p "$folder"
    echo "/export$folder $folder none bind" >>/etc/fstab
    mount "$folder"
done
sed -i 's/^SGE_CELL=.*/SGE_CELL=alpha/' /etc/default/gridengine
install -d -o sgeadmin -g sgeadmin /var/spool/gridengine/alpha/execd
/etc/init.d/gridengine-exec start
