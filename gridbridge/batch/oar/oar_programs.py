"""Reaches an OAR server by OAR's programs, run on a frontend: here, or by ssh as the login's user."""

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.errors import GridbridgeError, ParseError
from gridbridge.model.job_request import JobSpec
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell import ssh
from gridbridge.shell.program_runs import ANSWER_BYTES, LIST_BYTES, CompletedProgram

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Protocol

    from gridbridge.batch.oar.oar_output_parser import OarJob, OarResource, OarStatus

    class OarFrontend(Protocol):
        """Requests to an OAR server, as one account; every method may raise CommandFailed, queries also ParseError."""

        host: str  # name of the server in messages
        MOST_ENDS: int  # maximal number of ended tasks in one query

        def explain_request_refusal(self, spec: JobSpec) -> str:
            """Return why this access to the server can't submit a job; empty if it can."""

        def submit_held_job(self, spec: JobSpec, content: bytes) -> CompletedProgram:
            """Submit a held job or array whose first process runs the file `content`; return how oarsub ended."""

        def find_whole_scripts(self, names: Iterable[str]) -> Collection[str]:
            """Return the names of those stored job files that arrived whole."""

        def find_jobs(self, condition: str) -> "list[OarJob]":
            """Return the jobs that meet an SQL condition on table `jobs`, by job id."""

        def find_live_tasks(self, arrays: Sequence[str]) -> "list[OarJob]":
            """Return the tasks of arrays that have not ended."""

        def show_job(self, job: str) -> "list[OarJob]":
            """Return a job, even an ended job; empty if the job does not exist."""

        def show_job_and_usage(self, job: str) -> "tuple[list[OarJob], Mapping[str, tuple[float, float]]]":
            """Return a job, and the CPU times that accounts recorded for the job."""

        def query_status(self, job_ids: Collection[int], uncounted: Collection[int]) -> OarStatus:
            """Return the server's resources, the jobs `job_ids`, and the waiting jobs outside `uncounted` arrays."""

        def list_resources(self) -> "list[OarResource]":
            """Return all resources with their properties."""

        def hold_job(self, job: str) -> CompletedProgram:
            """Hold a waiting job; return how oarhold ended."""

        def resume_job(self, job: str) -> CompletedProgram:
            """Release a job; return how oarresume ended."""

        def resume_arrays(self, arrays: Iterable[str]) -> CompletedProgram:
            """Release all tasks of arrays; return the first oarresume that failed, or the last one if none failed."""

        def signal_job(self, job: str, name: str) -> CompletedProgram:
            """Send a signal to a running job's first process; return how oardel ended."""

        def delete_job(self, job: str) -> CompletedProgram:
            """Delete a job and its stored file; return how oardel ended."""

        def delete_array(self, array: str) -> CompletedProgram:
            """Delete all tasks of an array and the stored file; return how oardel ended."""

        def delete_tasks(self, array: str, indices: Mapping[str, str]) -> CompletedProgram:
            """Delete tasks of an array, given as {job id: array index}; return how oardel ended."""

        def query_version(self) -> str:
            """Return OAR's version, for example `OAR 2.5.9`."""

        def query_clock_s(self) -> float:
            """Return the clock of the host that answers."""


QUERY_FAILED = b"DBD::"  # oarstat prints this after a failed database query (DBI(3)), and exits with 0


def oar_frontend(server: OarServerAccessSettings) -> "OarFrontend":
    """Return access to an OAR server: by its REST interface if the access has its address, else by OAR's programs."""
    if not server.api:
        return OarPrograms(server)
    from gridbridge.batch.oar.oar_rest_frontend import OarRestFrontend  # programs of a cluster by ssh need no HTTP

    return OarRestFrontend(server)


class OarPrograms:
    MOST_ENDS = 300  # each task takes oarstat 16 ms

    def __init__(self, server: OarServerAccessSettings) -> None:
        self._server = server
        self.host = server.login.host if server.login else "this host"

    def explain_request_refusal(self, _spec: JobSpec) -> str:
        return ""

    def submit_held_job(self, spec: JobSpec, content: bytes) -> CompletedProgram:
        argv = oar_command_line_builders.submit_held_job_argv(self._server, spec, len(content))
        return run_client(self._server, argv, content)

    def find_whole_scripts(self, _names: "Iterable[str]") -> "Collection[str]":
        """Return the names of all stored files: far.sh renames a file only after the file arrived whole."""
        answer = run_client(self._server, oar_command_line_builders.oar_frontend_script_argv(self._server, "ls", "."))
        return answer.require_success().stdout.decode().split()

    def find_jobs(self, condition: str) -> "list[OarJob]":
        return self._query_jobs(oar_command_line_builders.show_jobs_by_sql_argv(self._server, condition))

    def find_live_tasks(self, arrays: "Sequence[str]") -> "list[OarJob]":
        return self.find_jobs(oar_command_line_builders.live_array_tasks_condition(*arrays))

    def show_job(self, job: str) -> "list[OarJob]":
        return self._query_jobs(oar_command_line_builders.show_job_argv(self._server, job))

    def show_job_and_usage(self, job: str) -> "tuple[list[OarJob], Mapping[str, tuple[float, float]]]":
        from gridbridge.batch.oar.oar_output_parser import parse_oar_job_end_and_usage

        show = (
            oar_command_line_builders.show_job_end_and_usage_argv
            if self._server.ends
            else oar_command_line_builders.show_job_argv
        )
        return parse_oar_job_end_and_usage(self._query(show(self._server, job)))

    def query_status(self, job_ids: "Collection[int]", uncounted: "Collection[int]") -> "OarStatus":
        from gridbridge.batch.oar.oar_output_parser import parse_oar_status
        from gridbridge.batch.oar.oar_server_query_commands import oar_status_query_argv

        return parse_oar_status(self._query(oar_status_query_argv(self._server, job_ids, uncounted)))

    def list_resources(self) -> "list[OarResource]":
        from gridbridge.batch.oar.oar_output_parser import parse_oar_resources

        return parse_oar_resources(self._query(oar_command_line_builders.show_nodes_argv(self._server)))

    def hold_job(self, job: str) -> CompletedProgram:
        return self._run("oarhold", job)

    def resume_job(self, job: str) -> CompletedProgram:
        return self._run("oarresume", job)

    def resume_arrays(self, arrays: "Iterable[str]") -> CompletedProgram:
        return self._run("oarresume", "--array", *arrays)

    def signal_job(self, job: str, name: str) -> CompletedProgram:
        return self._run("oardel", "-s", name, job)

    def delete_job(self, job: str) -> CompletedProgram:
        return self._delete("delete", job, job)

    def delete_array(self, array: str) -> CompletedProgram:
        return self._delete("delete_array", array, "--array", array)

    def delete_tasks(self, array: str, indices: "Mapping[str, str]") -> CompletedProgram:
        return self._delete("delete_tasks", " ".join((array, *indices.values())), *indices)

    def query_version(self) -> str:
        """Return the version of OAR's client programs; the query needs no database."""
        text = self._run("oarstat", "-V").require_success().stdout.decode("utf-8", "replace")
        return f"OAR {text.partition(':')[2].split('(')[0].strip()}" if ":" in text else text.strip()

    def query_clock_s(self) -> float:
        answer = run_client(self._server, ("/bin/date", "+%s.%N")).require_success()
        text = answer.stdout.decode("utf-8", "replace").strip()
        try:
            return float(text)
        except ValueError as error:
            raise ParseError(f"date: {text[:40]!r} is not a time") from error

    def _run(self, program: str, *words: str) -> CompletedProgram:
        return run_client(self._server, oar_command_line_builders.time_limited_oar_argv(self._server, program, *words))

    def _delete(self, verb: str, about: str, *words: str) -> CompletedProgram:
        """Run oardel by a verb of far.sh, which also deletes stored scripts."""
        oardel = oar_command_line_builders.time_limited_oar_argv(self._server, "oardel", *words)
        return run_client(
            self._server, oar_command_line_builders.oar_frontend_script_argv(self._server, verb, about, *oardel)
        )

    def _query_jobs(self, argv: oar_command_line_builders.Argv) -> "list[OarJob]":
        from gridbridge.batch.oar.oar_output_parser import parse_oarstat_jobs  # imports json, which no submission needs

        return parse_oarstat_jobs(self._query(argv))

    def _query(self, argv: oar_command_line_builders.Argv) -> bytes:
        """Return a program's output; raise ParseError if stderr shows a failed database query."""
        answer = run_client(self._server, argv, most_bytes=LIST_BYTES).require_success()
        if QUERY_FAILED in answer.stderr:
            raise ParseError(f"OAR: {answer.stderr.decode('utf-8', 'replace').strip()}")
        return answer.stdout


def run_client(
    server: OarServerAccessSettings,
    argv: oar_command_line_builders.Argv,
    stdin: bytes = b"",
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a program of OAR on a frontend; raise GridbridgeError for a server that only its REST interface reaches."""
    if server.api:
        raise GridbridgeError(f"{server.api}: OAR's REST interface has no such request; expected a cluster by ssh")
    environment, limit_s = server.command_environment(), server.timeout_s
    return ssh.run_over_ssh(server.login, argv, environment, limit_s, stdin, most_bytes=most_bytes)
