"""A stored campaign can be written as a JDL."""

import json

import pytest

from gridbridge.campaigns.submission import jdl_reader
from gridbridge.campaigns.submission.jdl_writer_and_task_files import campaign_to_jdl_table
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster

ALL = JdlSettingsAtCluster(
    exec_file="echo $1 '{}'",
    exec_directory="$HOME/a b",
    slots=8,
    nodes=2,
    environment="smp",
    walltime_s=90061,
    is_besteffort=False,
    project="p",
    queue="q",
    properties="mem>=2000,gpu=A B;cpu<>x;mem<9,a=1,b~n%,c<>~x_,d==,e<>==",
    prologue="make\n\nls",
    prologue_walltime_s=60,
    epilogue="rm x",
    epilogue_walltime_s=61,
    max_jobs=3,
)

MANY = ",".join(f"a{number}=1;b{number}=2" for number in range(32))


@pytest.mark.parametrize(
    "campaign",
    [
        Jdl(name="a b", clusters={"beta": JdlSettingsAtCluster(exec_file="x")}),
        Jdl(name="é", clusters={"beta": ALL}, outputs=("a", "b/c")),
        Jdl(name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y")}, may_move=False),
        Jdl(name="x", clusters={"b": ALL, "c": JdlSettingsAtCluster(exec_file="y")}, is_idempotent=True),
        Jdl(name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y", slots=8, nodes=0)}),
        Jdl(name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y", properties=MANY)}),
    ],
    ids=["plain", "every key", "not to be moved", "two clusters", "any nodes", "many conditions"],
)
def test_a_written_jdl_is_parsed_as_the_same_campaign(campaign: Jdl) -> None:
    parameters = ("north 1", "north#2 2", "it's")

    said = jdl_reader.parse_jdl("JDL", json.dumps(campaign_to_jdl_table(campaign, parameters)))

    assert (said.jdl, said.parameters, said.warnings) == (campaign, parameters, ())
