"""The questions of `gridbridge init`, and the configuration that follows from a view and answers."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from gridbridge.config import configuration_file
from gridbridge.decisions.site.first_configuration import (
    answer_init_question,
    first_configuration_text,
    next_init_question,
)
from gridbridge.errors import ParseError
from gridbridge.model.site.visible_clusters import (
    DaemonPorts,
    HostView,
    InitAnswers,
    InitQuestionKey,
    SiteView,
    VisibleCluster,
)
from gridbridge.model.site_configuration import ClusterKind

PORTS = DaemonPorts(qmaster=6444, execd=6445)
ALPHA = VisibleCluster(
    kind=ClusterKind.GRIDENGINE, master="a", root="/var/lib/gridengine", cell="alpha", ports=PORTS, is_own=True
)
BETA = replace(ALPHA, master="b", cell="beta", ports=None, is_own=False)
OAR = VisibleCluster(kind=ClusterKind.OAR, master="g", binaries="/usr/bin", is_own=True)
TWO = HostView(host="a", clusters={"alpha": ALPHA, "beta": BETA})
PORTS_OF = {"qmaster_port": 6444, "execd_port": 6445}
FAILED = HostView(host="delta-master", trouble="delta-master does not let the key in")


def asked(here: HostView, replies: dict[str, str], **by_ssh: HostView) -> tuple[list[str], str]:
    """Answer each question by a reply or its default; return the questions' keys and the file."""
    view, answers, keys = SiteView(here=here, by_ssh=by_ssh), InitAnswers(), []
    while question := next_init_question(view, answers):
        keys.append(question.key.value)
        reply = replies.get(question.key, question.default)
        answers = answer_init_question(view, answers, question.key, reply)
    return keys, first_configuration_text(view, answers)


@pytest.mark.parametrize(
    ("here", "replies", "by_ssh", "keys", "sections"),
    [
        (HostView(host="x"), {}, {}, "--home --ssh", {"site": {"cluster": "hub"}}),
        (
            HostView(host="a", clusters={"alpha": ALPHA}),
            {},
            {},
            "--home --ssh",
            {"site": {"cluster": "alpha"}, "cluster": {"alpha": PORTS_OF}},
        ),
        (
            TWO,
            {"--ports": "beta=1,2", "--spool-shared": "Yes"},
            {},
            "--home --clusters --ssh --ports --spool-shared",
            {
                "site": {"cluster": "alpha"},
                "cluster": {"alpha": PORTS_OF, "beta": {"qmaster_port": 1, "execd_port": 2, "spool_shared": True}},
            },
        ),
        (
            TWO,
            {"--clusters": "none"},
            {},
            "--home --clusters --ssh",
            {"site": {"cluster": "alpha"}, "cluster": {"alpha": PORTS_OF}},
        ),
        (
            HostView(
                host="a", clusters={"a": replace(ALPHA, cell="default", root="/opt/sge", binaries="/opt/sge/bin")}
            ),
            {"--home": "here"},
            {},
            "--home --ssh",
            {
                "site": {"cluster": "here"},
                "cluster": {"here": {"root": "/opt/sge", "cell": "default", "binaries": "/opt/sge/bin", **PORTS_OF}},
            },
        ),
        (
            HostView(host="g", clusters={"g": OAR}),
            {"--home": "gamma", "--ssh": "delta=al@delta-master:22"},
            {"delta": HostView(host="d", clusters={"delta": replace(BETA, cell="delta", ports=PORTS)})},
            "--home --ssh",
            {
                "site": {"cluster": "gamma"},
                "cluster": {"gamma": {"kind": "oar"}, "delta": {**PORTS_OF, "ssh": "delta-master:22"}},
            },
        ),
        (
            HostView(host="x"),
            {"--ssh": "delta=delta-master gamma=g", "--ports": "delta=6444,6445, gamma=oar"},
            {"delta": FAILED, "gamma": FAILED},
            "--home --ssh --ports",
            {
                "site": {"cluster": "hub"},
                "cluster": {"delta": {**PORTS_OF, "ssh": "delta-master"}, "gamma": {"kind": "oar", "ssh": "g"}},
            },
        ),
    ],
    ids=["nothing", "one cell", "two cells", "alone", "cell default", "OAR", "no login"],
)
def test_the_file_has_what_differs_from_the_defaults(
    here: HostView, replies: dict[str, str], by_ssh: dict[str, HostView], keys: str, sections: dict[str, Any]
) -> None:
    """At most five questions are asked, and the file passes the checks of the configuration."""
    questions, text = asked(here, replies, **by_ssh)

    assert (questions, tomllib.loads(text)) == (keys.split(), sections)
    assert configuration_file.parse_configuration("gridbridge.toml", text.encode())
    assert len(text.splitlines()) < 40
    assert max(map(len, text.splitlines())) <= 120


def test_the_question_for_ports_says_why_ssh_showed_none() -> None:
    view = SiteView(here=HostView(host="x"), by_ssh={"delta": FAILED})
    question = next_init_question(view, InitAnswers(home="hub", ssh={"delta": "delta-master"}))

    assert question
    assert question.text == "Ports of delta, as NAME=QMASTER,EXECD, or NAME=oar; delta-master does not let the key in"


@pytest.mark.parametrize(
    ("key", "text", "right"),
    [
        ("--home", "Alpha", "a letter first"),
        ("--clusters", "alpha", "no other cluster on this host; expected beta, or none"),
        ("--ssh", "delta", "NAME=.ACCOUNT@.HOST"),
        ("--ssh", "delta=a b", "NAME=.ACCOUNT@.HOST"),
        ("--ssh", "delta=-oProxyCommand=x", "NAME=.ACCOUNT@.HOST"),
        ("--ssh", "Delta=d", "a letter first"),
        ("--ports", "beta=1", "QMASTER,EXECD"),
        ("--ports", "beta=0,70000", "QMASTER,EXECD"),
        ("--ports", "6444,6445", "QMASTER,EXECD"),
        ("--spool-shared", "perhaps", "yes or no"),
    ],
)
def test_a_wrong_answer_is_refused_with_the_expected_form(key: str, text: str, right: str) -> None:
    with pytest.raises(ParseError, match=f"^{key} .*{right}"):
        answer_init_question(SiteView(here=TWO), InitAnswers(home="alpha"), InitQuestionKey(key), text)
