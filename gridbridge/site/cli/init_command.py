"""gridbridge init: looks at the host, asks a few questions, and writes the first gridbridge.toml."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import refuse_empty_option_value
from gridbridge.config import configuration_file
from gridbridge.decisions.site import first_configuration
from gridbridge.errors import CommandLineMistake, GridbridgeError, ParseError
from gridbridge.model.fixed_paths import CONFIG, SET_UP
from gridbridge.model.site.visible_clusters import (
    HostView,
    InitAnswers,
    InitQuestion,
    InitQuestionKey,
    SiteView,
    VisibleCluster,
)
from gridbridge.shell import safe_files
from gridbridge.site import visible_cluster_queries

FILE_EXISTS = 1  # exit status
FORMER = ".old"  # suffix of the replaced file
NOBODY_TO_ASK = "no terminal for the questions; expected --yes, which accepts what this host shows, or options"
Ask = Callable[[InitQuestion], str]


@click.command()
@click.option("--home", metavar="NAME", callback=refuse_empty_option_value, help="The name of this site's cluster.")
@click.option("--clusters", metavar="NAME,...", help="Other clusters on this host to share work with, or none.")
@click.option("--ssh", metavar="NAME=HOST,...", help="Clusters by ssh, each as NAME=[ACCOUNT@]HOST[:PORT], or none.")
@click.option("--ports", metavar="NAME=QMASTER,EXECD", multiple=True, help="A cell's ports; NAME=oar for OAR.")
@click.option("--spool-shared/--no-spool-shared", default=None, help="Whether other clusters' nodes mount the spool.")
@click.option("--yes", "is_yes", is_flag=True, help="Ask nothing: accept what this host shows.")
@click.option("--replace", "is_replaced", is_flag=True, help=f"Replace the file; the former file becomes FILE{FORMER}.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Print the file, and write nothing.")
@click.option("--config", "path", metavar="FILE", default=CONFIG, show_default=True, help="Write this file.")
def init(is_yes: bool, is_replaced: bool, is_dry: bool, path: str, **given: object) -> None:
    """Write a first gridbridge.toml.

    The command looks which cells of Grid Engine this host sees, whether the host has OAR, and what hosts by ssh show.
    At most five questions complete the picture; options answer questions beforehand. The file has only the keys that
    differ from the defaults. An ACCOUNT of --ssh is used to look at the host, with the key of the user who called
    sudo. Exit status: 0 written; 1 the file exists and stays as it was; 2 an error.

    \b
    Example:
      gridbridge init
      gridbridge init --yes --ssh delta=delta-master --dry-run
    """
    if not is_dry:
        _require_writable(path, is_replaced)
    answered = {InitQuestionKey(f"--{name.replace('_', '-')}"): value for name, value in given.items()}
    has_options = is_yes or any(value not in (None, ()) for value in answered.values())
    is_asking = not is_yes and is_terminal()
    if not has_options and not is_asking:
        raise CommandLineMistake((NOBODY_TO_ASK,))
    view = SiteView(here=visible_cluster_queries.look_at_this_host())
    if is_asking:
        _print_host_view(view.here)
    answers = _answers_of_options(view, answered)
    view, answers = _complete_answers(
        view, answers, _ask_at_terminal if is_asking else lambda question: question.default
    )
    text = first_configuration.first_configuration_text(view, answers)
    configuration_file.parse_configuration(path, text.encode())
    if is_dry:
        output_and_errors.print_line(text.rstrip("\n"))
        return
    _require_writable(path, is_replaced)  # once more, because the questions may have taken long
    _write_configuration(path, text)
    output_and_errors.print_line(f"{path}: written")
    output_and_errors.print_line(f"next: {SET_UP if path == CONFIG else f'gridbridge check --config {path}'}")


def is_terminal() -> bool:
    return bool(sys.stdin) and sys.stdin.isatty()


def _answers_of_options(view: SiteView, given: dict[InitQuestionKey, object]) -> InitAnswers:
    answers = InitAnswers()
    for key in InitQuestionKey:  # in the order of the questions, because the home cluster is none of the others
        value = given[key]
        if isinstance(value, bool):
            answers = replace(answers, is_spool_shared=value)
        elif isinstance(value, tuple):
            for word in value:
                answers = first_configuration.answer_init_question(view, answers, key, word)
        elif value is not None:
            answers = first_configuration.answer_init_question(view, answers, key, str(value))
    return answers


def _complete_answers(view: SiteView, answers: InitAnswers, ask: Ask) -> tuple[SiteView, InitAnswers]:
    while True:
        view = _with_new_hosts_by_ssh(view, answers)
        question = first_configuration.next_init_question(view, answers)
        if question is None:
            return view, answers
        text = ask(question)
        if not text:
            raise CommandLineMistake((f"{question.key}: missing: {question.text}",))
        try:
            answers = first_configuration.answer_init_question(view, answers, question.key, text)
        except ParseError as error:
            if ask is not _ask_at_terminal:
                raise
            output_and_errors.print_error(str(error))


def _with_new_hosts_by_ssh(view: SiteView, answers: InitAnswers) -> SiteView:
    person = os.environ.get("SUDO_USER", "") if os.geteuid() == 0 else ""
    new = {name: address for name, address in (answers.ssh or {}).items() if name not in view.by_ssh}
    views = {name: visible_cluster_queries.look_at_host_by_ssh(address, person) for name, address in new.items()}
    return replace(view, by_ssh={**view.by_ssh, **views})


def _ask_at_terminal(question: InitQuestion) -> str:
    answer: str = click.prompt(question.text, default=question.default or None, err=True)
    return answer


def _print_host_view(view: HostView) -> None:
    for name, cluster in view.clusters.items():
        output_and_errors.print_line(f"{view.host} shows {_cluster_in_words(name, cluster)}")


def _cluster_in_words(name: str, cluster: VisibleCluster) -> str:
    if not cluster.cell:
        return f"{name}: OAR, by {cluster.binaries}/oarstat"
    ports = f"ports {cluster.ports.qmaster} and {cluster.ports.execd}" if cluster.ports else "ports unknown"
    return f"{name}: cell {cluster.cell} in {cluster.root}, qmaster on {cluster.master}, {ports}"


def _require_writable(path: str, is_replaced: bool) -> None:
    if os.path.lexists(path) and not is_replaced:
        output_and_errors.print_error(f"gridbridge: {path}: exists and stays as it is; --replace replaces the file")
        raise SystemExit(FILE_EXISTS)
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        raise CommandLineMistake((f"{folder}: not writable; expected root, or another file with --config FILE",))


def _write_configuration(path: str, text: str) -> None:
    """Write the file; the former file stays beside the new file."""
    path = os.path.abspath(path)
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with suppress(FileNotFoundError), open(path, "rb") as former:
            safe_files.replace_file_atomically(f"{path}{FORMER}", former.read())
    except OSError as error:
        raise GridbridgeError(f"{error.filename}: {error.strerror}") from error
    safe_files.replace_file_atomically(path, text.encode())
