"""What each edit of a set-up changes, as `gridbridge setup` shows it before the change."""

import pytest

from gridbridge.decisions.site.setup_edit_effects import object_changed_by_edit, object_lines_after_edit
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb

V = SetupEditVerb


def attribute(verb: SetupEditVerb, name: str, attribute: str, value: str = "") -> SetupEdit:
    return SetupEdit.queue_attribute_edit(verb, "alpha", name, attribute, value)


@pytest.mark.parametrize(
    ("edit", "title", "before", "after"),
    [
        (attribute(V.REPLACE, "q", "slots", "4"), "queue q", ("slots 1", "rerun T"), ("slots 4", "rerun T")),
        (attribute(V.REPLACE, "q@n1", "slots", "4"), "queue q", ("slots 1",), ("slots 1,[n1=4]",)),
        (attribute(V.REPLACE, "q@@big", "slots", "4"), "queue q", ("slots 1,[@big=2]",), ("slots 1,[@big=4]",)),
        (attribute(V.PURGE, "q@n1", "slots"), "queue q", ("slots 1,[n1=2],[n2=3]",), ("slots 1,[n2=3]",)),
        (attribute(V.MERGE, "q", "complex_values", "remote=FALSE"), "queue q",
         ("complex_values NONE,[n1=gpu=1]",), ("complex_values remote=FALSE,[n1=gpu=1]",)),
        (attribute(V.MERGE, "q@n1", "complex_values", "remote=FALSE"), "queue q",
         ("complex_values a=1,[n1=gpu=1,remote=TRUE]",), ("complex_values a=1,[n1=gpu=1,remote=FALSE]",)),
        (attribute(V.MERGE, "q", "pe_list", "smp"), "queue q", ("pe_list make mpi",), ("pe_list make mpi smp",)),
        (attribute(V.DROP, "q", "pe_list", "smp"), "queue q", ("pe_list smp",), ("pe_list NONE",)),
        (attribute(V.DROP, "q", "subordinate_list", "b=2"), "queue q",
         ("subordinate_list a=1,b=2",), ("subordinate_list a=1",)),
        (SetupEdit(verb=V.SET_COMPLEX, name="remote", value="remote new"), "complexes",
         ("remote old", "remote_x keep"), ("remote_x keep", "remote new")),
        (SetupEdit(verb=V.DROP_COMPLEX, name="remote"), "complexes", ("remote old", "s INT"), ("s INT",)),
        (SetupEdit(verb=V.ADD_QUEUE, name="q", value="qname q\nslots 4"), "queue q", (), ("qname q", "slots 4")),
        (SetupEdit(verb=V.DROP_QUEUE, name="q"), "queue q", ("qname q",), ()),
        (SetupEdit(verb=V.SET_HOST, name="h", attribute="gid_range", value="1-9"), "configuration of host h",
         ("load_sensor /a",), ("load_sensor /a", "gid_range 1-9")),
        (SetupEdit(verb=V.DROP_HOST, name="h", attribute="gid_range"), "configuration of host h",
         ("load_sensor /a", "gid_range 1-9"), ("load_sensor /a",)),
        (SetupEdit(verb=V.SET_SCHEDULER, attribute="params", value="x"), "scheduler", ("params none",), ("params x",)),
        (SetupEdit(verb=V.ADMIT, kind="operator", name="gb"), "operators", ("ann",), ("ann", "gb")),
        (SetupEdit(verb=V.DISMISS, kind="admin", name="h"), "admin hosts", ("h", "k"), ("k",)),
        (SetupEdit(verb=V.ALLOW, name="gb_x_users", value="ann,bob"), "userset gb_x_users",
         (), ("name gb_x_users", "entries ann,bob")),
        (SetupEdit(verb=V.DISALLOW, name="gb_x_users", value="ann"), "userset gb_x_users",
         ("name gb_x_users", "entries ann,bob"), ("name gb_x_users", "entries bob")),
        (SetupEdit(verb=V.DROP_LIST, name="gb_x_users"), "userset gb_x_users", ("name gb_x_users",), ()),
        (SetupEdit(verb=V.EXEMPT, name="r", attribute="name be", value="limit name be to slots=9"), "resource quota r",
         ("{", "enabled TRUE", "limit users * to slots=1", "}"),
         ("{", "enabled TRUE", "limit name be to slots=9", "limit users * to slots=1", "}")),
        (SetupEdit(verb=V.INCLUDE, name="r", attribute="name be"), "resource quota r",
         ("enabled TRUE", "limit name be to slots=9", "}"), ("enabled TRUE", "}")),
    ],
)  # fmt: skip
def test_an_edit_changes_only_its_part_of_an_object(
    edit: SetupEdit, title: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    changed = object_changed_by_edit(edit)

    assert changed
    assert (changed.title, object_lines_after_edit(edit, before)) == (title, after)


@pytest.mark.parametrize("verb", [V.SHELL, V.RESTART, V.SUSPEND, V.ENABLE, V.WRITE_FILE])
def test_other_edits_change_no_configuration_of_a_cell(verb: SetupEditVerb) -> None:
    assert object_changed_by_edit(SetupEdit(verb=verb, name="x")) is None
