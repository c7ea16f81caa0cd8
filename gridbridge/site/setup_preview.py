"""Shows what the steps of a set-up change: objects of Grid Engine and files as a diff, and what restarts."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.config.edit import edited_configuration
from gridbridge.decisions.site.setup_edit_effects import object_changed_by_edit, object_lines_after_edit
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.local_host_facts import read_text_or_empty
from gridbridge.site.transfer_queue_request import home_queue_setup_adapter
from gridbridge.site.transfer_queue_setup import SetupStep

Lines = tuple[str, ...]
CONTEXT_LINES = 3  # unchanged lines around a change of a file; objects of Grid Engine are shown without


def restarted_programs(steps: Sequence[SetupStep]) -> tuple[str, ...]:
    """Return what the steps restart, each once."""
    return tuple(dict.fromkeys(step.edit.name for step in steps if step.edit.verb is SetupEditVerb.RESTART))


class SetupPreview:
    """Applies edits in memory, to the objects and files as they are now."""

    def __init__(self, policy: Policy, configuration: str = CONFIG) -> None:
        self._policy, self._configuration = policy, configuration
        self._before: dict[str, Lines] = {}
        self._after: dict[str, Lines] = {}
        self._files: set[str] = set()

    def difference_after(self, steps: Sequence[SetupStep]) -> tuple[str, ...]:
        """Return the lines of a unified diff of all objects and files that the steps change, in their order."""
        for step in steps:
            self._apply_to_object(step.edit)
            self._apply_to_file(step.edit)
        return tuple(line for title in self._before for line in self._difference_of(title))

    def _apply_to_object(self, edit: SetupEdit) -> None:
        if not (changed := object_changed_by_edit(edit)):
            return
        title = f"{edit.cell}: {changed.title}"
        if title not in self._before:
            access, is_new = configured_cluster_access(self._policy, edit.cell), edit.verb is SetupEditVerb.ADD_QUEUE
            show = home_queue_setup_adapter(access).query_object_lines
            self._before[title] = () if is_new else show(access, changed)
        self._after[title] = object_lines_after_edit(edit, self._after.get(title, self._before[title]))

    def _apply_to_file(self, edit: SetupEdit) -> None:
        is_section = edit.verb in (SetupEditVerb.PUT_KEYS, SetupEditVerb.DROP_SECTION)
        path = self._configuration if is_section else edit.name
        if not is_section and edit.verb not in FILE_VERBS:
            return
        if path not in self._before:
            self._files.add(path)
            self._before[path] = tuple(read_text_or_empty(path).splitlines())
        self._after[path] = self._file_after_edit(edit, self._after.get(path, self._before[path]))

    def _file_after_edit(self, edit: SetupEdit, lines: Lines) -> Lines:
        if edit.verb is SetupEditVerb.WRITE_FILE:
            return tuple(edit.value.splitlines())
        if edit.verb is SetupEditVerb.COPY_FILE:
            return tuple(read_text_or_empty(edit.value).splitlines())
        if edit.verb is SetupEditVerb.REMOVE_FILE:
            return ()
        raw = "".join(f"{line}\n" for line in lines).encode()
        keys = edit.value.splitlines() if edit.verb is SetupEditVerb.PUT_KEYS else None
        return tuple(edited_configuration(raw, (edit.kind, edit.name), keys).decode().splitlines())

    def _difference_of(self, title: str) -> Iterator[str]:
        is_file = title in self._files
        before, after = self._before[title], self._after[title]
        old, new = ("/dev/null" if not lines else title for lines in (before, after))
        lines = unified_diff(before, after, old, new, lineterm="", n=CONTEXT_LINES if is_file else 0)
        yield from lines if is_file else (line for line in lines if not line.startswith("@@"))


FILE_VERBS = (SetupEditVerb.WRITE_FILE, SetupEditVerb.COPY_FILE, SetupEditVerb.REMOVE_FILE)
