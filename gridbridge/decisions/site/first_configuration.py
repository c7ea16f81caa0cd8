"""Decides the questions of `gridbridge init`, and the gridbridge.toml that follows from the view and the answers."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

from gridbridge.decisions.site.visible_cluster_parser import is_port
from gridbridge.errors import ParseError
from gridbridge.model.config_key_descriptions import CLUSTER_NAME, SSH_PLACE, config_key_description
from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.model.site.visible_clusters import (
    DaemonPorts,
    HostView,
    InitAnswers,
    InitQuestion,
    InitQuestionKey,
    SiteView,
    VisibleCluster,
)
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, has_qmaster

NO_OWN_CLUSTER = "hub"  # name of a site without a batch system
NONE, YES, NO = "none", "yes", "no"
PORTS_FORM = "NAME=QMASTER,EXECD, or NAME=oar"
WITHOUT_PORTS = (ClusterKind.OAR.value,)  # words that stand for a cluster without ports
COMMENT_COLUMN = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCluster:
    visible: VisibleCluster
    ssh: str = ""  # HOST or HOST:PORT
    trouble: str = ""  # why ssh showed nothing of the cluster


def next_init_question(view: SiteView, answers: InitAnswers) -> InitQuestion | None:
    """Return the next of at most five questions; None if the answers are complete."""
    if answers.home is None:
        text = "Name of this site's cluster" if view.here.clusters else "Name of this site, which shows no cluster here"
        return InitQuestion(key=InitQuestionKey.HOME, text=text, default=_proposed_home(view.here))
    others = remote_clusters_here(view.here, answers.home)
    if answers.clusters is None and others:
        text = "Other clusters on this host to share work with"
        return InitQuestion(key=InitQuestionKey.CLUSTERS, text=text, default=",".join(others))
    if answers.ssh is None:
        text = "Clusters by ssh, as NAME=HOST,..."
        return InitQuestion(key=InitQuestionKey.SSH, text=text, default=NONE)
    chosen = chosen_clusters(view, answers)
    if lacking := clusters_without_ports(chosen, answers):
        reasons = "".join(f"; {chosen[name].trouble}" for name in lacking if chosen[name].trouble)
        text = f"Ports of {', '.join(lacking)}, as {PORTS_FORM}{reasons}"
        return InitQuestion(key=InitQuestionKey.PORTS, text=text)
    if answers.is_spool_shared is None and clusters_that_may_share_spool(chosen, answers.home):
        text = f"Do nodes of the other clusters mount {SPOOL}, to report ends of jobs at once"
        return InitQuestion(key=InitQuestionKey.SPOOL, text=text, default=NO)
    return None


def answer_init_question(view: SiteView, answers: InitAnswers, key: InitQuestionKey, text: str) -> InitAnswers:
    """Return the answers with one more; raise ParseError with the expected form."""
    text = text.strip()
    match key:
        case InitQuestionKey.HOME:
            _require_cluster_name(key, text)
            return replace(answers, home=text)
        case InitQuestionKey.CLUSTERS:
            return replace(answers, clusters=_parse_remote_clusters(view.here, answers.home or "", text))
        case InitQuestionKey.SSH:
            return replace(answers, ssh=_parse_ssh_addresses(text))
        case InitQuestionKey.PORTS:
            return replace(answers, ports={**answers.ports, **_parse_ports(text)})
        case InitQuestionKey.SPOOL:
            if text.lower() not in (YES, NO, YES[0], NO[0]):
                raise ParseError(f"{key} {text!r}: expected {YES} or {NO}")
            return replace(answers, is_spool_shared=text.lower().startswith(YES[0]))


def chosen_clusters(view: SiteView, answers: InitAnswers) -> dict[str, ChosenCluster]:
    """Return the home cluster, if there is one, and the chosen remote clusters, by name."""
    home = answers.home or ""
    own = home_cluster_name(view.here, home)
    chosen = {home: ChosenCluster(visible=view.here.clusters[own])} if own else {}
    chosen |= {name: ChosenCluster(visible=view.here.clusters[name]) for name in answers.clusters or ()}
    for name, address in (answers.ssh or {}).items():
        chosen[name] = _chosen_cluster_by_ssh(name, address, view.by_ssh.get(name))
    return {name: _with_answered_ports(cluster, name, answers) for name, cluster in chosen.items()}


def _chosen_cluster_by_ssh(name: str, address: str, view: HostView | None) -> ChosenCluster:
    host = address.rpartition("@")[2]
    unknown = VisibleCluster(kind=ClusterKind.GRIDENGINE, master=host)
    if view is None or view.trouble:
        return ChosenCluster(visible=unknown, ssh=host, trouble=view.trouble if view else "")
    own = home_cluster_name(view, name)
    trouble = "" if own else f"{host} shows {' and '.join(view.clusters) or 'no cluster'}"
    return ChosenCluster(visible=view.clusters[own] if own else unknown, ssh=host, trouble=trouble)


def _with_answered_ports(cluster: ChosenCluster, name: str, answers: InitAnswers) -> ChosenCluster:
    if name not in answers.ports:
        return cluster
    ports = answers.ports[name]
    kind = ClusterKind.GRIDENGINE if ports else ClusterKind.OAR
    return replace(cluster, visible=replace(cluster.visible, kind=kind, ports=ports))


def home_cluster_name(view: HostView, name: str) -> str:
    """Return the visible cluster that a site's name stands for: its namesake, else the host's own; '' if none is."""
    own = [other for other, cluster in view.clusters.items() if cluster.is_own]
    candidates = own or [*view.clusters]
    return name if name in view.clusters else candidates[0] if len(candidates) == 1 else ""


def remote_clusters_here(view: HostView, home: str) -> tuple[str, ...]:
    own = home_cluster_name(view, home)
    return tuple(name for name in view.clusters if name not in (own, home))


def clusters_without_ports(chosen: Mapping[str, ChosenCluster], answers: InitAnswers) -> tuple[str, ...]:
    return tuple(
        name
        for name, cluster in chosen.items()
        if has_qmaster(cluster.visible.kind) and not cluster.visible.ports and name not in answers.ports
    )


def clusters_that_may_share_spool(chosen: Mapping[str, ChosenCluster], home: str) -> tuple[str, ...]:
    return tuple(
        name
        for name, cluster in chosen.items()
        if name != home and not cluster.ssh and has_qmaster(cluster.visible.kind)
    )


def _proposed_home(view: HostView) -> str:
    own = home_cluster_name(view, "")
    return own or next((name for name, cluster in view.clusters.items() if cluster.is_own), NO_OWN_CLUSTER)


def _require_cluster_name(key: InitQuestionKey, name: str) -> None:
    if not CLUSTER_NAME.holds(name):
        raise ParseError(f"{key} {name!r}: wrong name; expected {CLUSTER_NAME.right}")


def _parse_remote_clusters(view: HostView, home: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_words(text)))
    others = remote_clusters_here(view, home)
    if unknown := [name for name in names if name not in others]:
        right = ", or ".join(filter(None, (" or ".join(others), NONE)))
        raise ParseError(f"{InitQuestionKey.CLUSTERS} {unknown[0]!r}: no other cluster on this host; expected {right}")
    return names


def _parse_ssh_addresses(text: str) -> Mapping[str, str]:
    addresses = dict(_parse_pairs(InitQuestionKey.SSH, text, "NAME=[ACCOUNT@]HOST[:PORT]"))
    for name, address in addresses.items():
        _require_cluster_name(InitQuestionKey.SSH, name)
        place = address.rpartition("@")[2]
        if not place or not SSH_PLACE.holds(place):
            raise ParseError(f"{InitQuestionKey.SSH} {name}={address}: expected NAME=[ACCOUNT@]HOST[:PORT]")
    return addresses


def _parse_ports(text: str) -> dict[str, DaemonPorts | None]:
    """Parse `beta=6454,6455 gamma=oar`, with blanks or commas between clusters."""
    words = re.split("[ ,]+(?=[^ ,]+=)", text.strip(" ,"))
    pairs = (word.partition("=") for word in words)
    return {name: _parse_port_pair(name, value) for name, _, value in pairs}


def _parse_port_pair(name: str, text: str) -> DaemonPorts | None:
    if text in WITHOUT_PORTS:
        return None
    qmaster, _, execd = text.partition(",")
    if not (is_port(qmaster) and is_port(execd)):
        raise ParseError(f"{InitQuestionKey.PORTS} {name}={text}: expected {PORTS_FORM}")
    return DaemonPorts(qmaster=int(qmaster), execd=int(execd))


def _parse_pairs(key: InitQuestionKey, text: str, right: str) -> Iterator[tuple[str, str]]:
    for word in _words(text):
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ParseError(f"{key} {word!r}: expected {right}")
        yield name, value


def _words(text: str) -> list[str]:
    return [] if text == NONE else text.replace(",", " ").split()


def first_configuration_text(view: SiteView, answers: InitAnswers) -> str:
    """Return a gridbridge.toml with the keys that differ from the defaults."""
    home = answers.home or ""
    chosen = chosen_clusters(view, answers)
    shared = clusters_that_may_share_spool(chosen, home) if answers.is_spool_shared else ()
    parts = (
        f"# gridbridge.toml of {home}: what differs from the defaults, by `gridbridge init`.\n"
        "# `gridbridge config --all` prints every key. Root alone writes this file; every user reads it.\n",
        "\n".join(("[site]", _key_line("cluster", home, "the home cluster's name, also the site's"), "")),
        *(_cluster_section_text(name, cluster, is_shared=name in shared) for name, cluster in chosen.items()),
    )
    return "\n".join(parts)


def _cluster_section_text(name: str, cluster: ChosenCluster, *, is_shared: bool) -> str:
    visible = cluster.visible
    usual = ClusterSection(kind=visible.kind).with_defaults(name)
    is_cell = has_qmaster(visible.kind)
    section = replace(
        usual,
        root=(is_cell and visible.root) or usual.root,
        cell=(is_cell and visible.cell) or name,
        binaries=visible.binaries or usual.binaries,
        qmaster_port=visible.ports.qmaster if visible.ports else 0,
        execd_port=visible.ports.execd if visible.ports else 0,
        spool_shared=is_shared,
        ssh=cluster.ssh,
    )
    batch = f"cell {section.cell}, qmaster" if is_cell else "OAR,"
    usual = replace(usual, kind=ClusterKind.GRIDENGINE)
    lines = [f"# {batch} {replace_control_characters(visible.master)}", f"[cluster.{name}]"]
    lines += [
        _key_line(key.name, value, config_key_description(key).meaning)
        for key in fields(section)
        if (value := getattr(section, key.name)) != getattr(usual, key.name)
    ]
    if cluster.ssh:
        lines.append(f'# users with another name there: [cluster.{name}.users] with lines USER = "ACCOUNT"')
    return "\n".join((*lines, ""))


def _key_line(key: str, value: object, meaning: str) -> str:
    return f"{f'{key} = {json.dumps(value)}':<{COMMENT_COLUMN}}# {meaning}"
