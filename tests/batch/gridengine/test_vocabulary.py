"""Tests of the names that a job may request in a cell."""

from pathlib import Path

from gridbridge.batch.gridengine.status import query_request_vocabulary
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from tests.batch.gridengine.cells import cell_of_scripts

QCONF = """\
echo "$@" >>"${0%/*}/asked"
case $1 in
-sc) cat <<'END'
#name               shortcut   type        relop requestable consumable default  urgency
#----------------------------------------------------------------------------------------
arch                a          RESTRING    ==    YES         NO         NONE     0
cpu                 cpu        DOUBLE      >=    NO          NO         0        0
licence             lic        INT         <=    FORCED      YES        0        0
END
;;
-spl) printf 'mpi\\nsmp\\nfar\\nnone\\n' ;;
-sprjl) echo 'no project list defined' >&2; exit 1 ;;
-sql) echo all.q ;;
-sp) case $2 in
    smp) printf 'pe_name smp\nslots 99\nallocation_rule $pe_slots\n' ;;
    mpi) printf 'pe_name mpi\nslots 99\nallocation_rule 2\n' ;;
    none) printf 'pe_name none\nslots 0\nallocation_rule $pe_slots\n' ;;
    esac ;;
-sq) cat <<'END'
qname     all.q
pe_list   make,[@big=smp none],[n1=mpi]

qname          transfer-beta
pe_list        far
complex_values remote=TRUE
END
;;
esac
"""


def test_the_request_vocabulary_has_all_requestable_names(tmp_path: Path) -> None:
    cell = cell_of_scripts(tmp_path, qconf=QCONF)

    assert query_request_vocabulary(cell) == NamesOfferedByCluster(
        resource=frozenset({"arch", "a", "licence", "lic"}),
        string=frozenset({"arch", "a"}),
        pe=frozenset({"mpi", "smp", "far", "none"}),
        queue=frozenset({"all.q"}),
        rule=frozenset({"mpi=2", "smp=$pe_slots"}),
    )
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked))
