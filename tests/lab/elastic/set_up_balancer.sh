set -e
getent passwd gridbridge-admin || useradd -r -m -d /var/lib/gridbridge-admin -s /bin/sh gridbridge-admin
install -d -m 755 -o gridbridge-admin /var/lib/gridbridge-admin
install -m 600 -o gridbridge-admin /etc/gridlab/gridadm.key /var/lib/gridbridge-admin/test.key
install -m 600 -o gridbridge-admin /etc/gridlab/power-token /var/lib/gridbridge-admin/test.token
echo 'gridbridge-admin ALL=(root) NOPASSWD: /opt/gridbridge/bin/gridbridge-as-root' \
    >/etc/sudoers.d/balance-test
chmod 440 /etc/sudoers.d/balance-test
qconf -sm | grep -qx gridbridge-admin || qconf -am gridbridge-admin
for folder in /home /opt/gridbridge /var/lib/gridengine/alpha/common; do
    echo "/export$folder $folder none bind 0 0"
done >/var/lib/gridbridge-admin/test.mounts
