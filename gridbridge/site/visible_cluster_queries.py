"""Looks which clusters this host, or a host by ssh, shows; nothing is changed on either host."""

import os
import socket
from collections.abc import Mapping
from dataclasses import replace

from gridbridge.decisions.site.visible_cluster_parser import parse_host_view
from gridbridge.errors import CommandFailed
from gridbridge.model.site.visible_clusters import HostView, VisibleCluster
from gridbridge.model.transfer_route import BARE, SshLogin, parse_ssh_login_address
from gridbridge.shell import ssh

ROOTS = (
    "/var/lib/gridengine",
    "/opt/sge",
    "/opt/gridengine",
    "/usr/local/sge",
    "/gridware/sge",
    "/usr/share/gridengine",
)
LOOK = r"""
variables() { sed -n 's/^ *\(SGE_[A-Z_]*=[^;]*\).*/\1/p' | tr '\n' '\t'; }
environments=$(pgrep -x 'sge_(qmaster|execd)' | sed 's|.*|/proc/&/environ|')
daemons=$(grep -azH '^SGE_' /dev/null $environments | tr '\0' '\n')
printf 'host\t%s\nenvironment\t%s\n' "$(hostname)" "$(env | variables)"
printf '%s\n' "$daemons" | sed 's/^/daemon\t/; s/:/\t/'
{ env; printf '%s\n' "$daemons" | sed 's/^[^:]*://'; cat /etc/default/gridengine /etc/profile.d/*.sh; } |
sed -n 's/^ *SGE_ROOT=\([^;]*\).*/\1/p' | { cat; printf '%s\n' "$@"; } | awk '!seen[$0]++' | while read -r root; do
    for file in "$root"/*/common/act_qmaster; do
        cell=${file%/common/act_qmaster}
        [ -r "$file" ] && printf 'cell\t%s\t%s\t%s\t%s\n' "$root" "${cell##*/}" "$(head -n 1 "$file")" \
            "$(cat "$cell/common/settings.sh" | variables)"
    done
    for folder in /usr/lib/gridengine "$root"/bin/*; do
        [ -x "$folder/qstat" ] && printf 'programs\t%s\t%s\n' "$root" "$folder"
    done
done
getent services sge_qmaster sge_execd | sed 's/^/service\t/'
program=$(command -v oarstat) && printf 'oar\t%s\n' "${program%/oarstat}"
exit 0
"""
LIMIT_S = 20.0
CONNECT_S = 2.0


def look_at_this_host(environment: Mapping[str, str] = os.environ, roots: tuple[str, ...] = ROOTS) -> HostView:
    """Look at this host; ports of services(5) count only if the cell's qmaster host accepts connections there."""
    named = {name: value for name, value in environment.items() if name.startswith("SGE_")}
    view = _look_at_host(None, named, roots)
    return replace(view, clusters={name: _without_wrong_guess(cluster) for name, cluster in view.clusters.items()})


def look_at_host_by_ssh(address: str, person: str) -> HostView:
    """Look at [ACCOUNT@]HOST[:PORT] with the key of `person`, or the caller's key; HostView.trouble has any error."""
    account, _, place = address.rpartition("@")
    try:
        return _look_at_host(parse_ssh_login_address(place, account, person), {}, ROOTS)
    except CommandFailed as error:
        return HostView(host=place, trouble=error.failure_in_words)


def _look_at_host(login: SshLogin | None, environment: Mapping[str, str], roots: tuple[str, ...]) -> HostView:
    argv = ("/bin/sh", "-c", LOOK, "sh", *roots)
    answer = ssh.run_over_ssh(login, argv, {**BARE, **environment}, LIMIT_S).require_success()
    return parse_host_view(answer.stdout.decode("utf-8", "replace"))


def _without_wrong_guess(cluster: VisibleCluster) -> VisibleCluster:
    if not (cluster.ports and cluster.are_ports_guessed):
        return cluster
    try:
        socket.create_connection((cluster.master, cluster.ports.qmaster), CONNECT_S).close()
    except OSError:
        return replace(cluster, ports=None)
    return cluster
