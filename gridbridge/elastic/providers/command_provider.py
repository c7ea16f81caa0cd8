"""Provider that runs a site's program: JSON on standard input, JSON on standard output.

The protocol is described in docs/how-to/providers.md, "A program of your own".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.elastic.providers import answer_validation
from gridbridge.elastic.providers import provider_program as program
from gridbridge.errors import ParseError, ProviderFailed
from gridbridge.model.elastic.elastic_nodes import POOL_TAG, ProviderMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandProvider:
    """Creates and destroys machines by a site's own program."""

    program: str
    timeout_s: float
    env: Mapping[str, str]
    cluster: str = ""  # whose machines have to be right

    def create(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Create a machine; raise ProviderFailed if the program reports another machine."""
        request = {"name": name, "pool": tags.get(POOL_TAG, ""), "tags": dict(tags)}
        printed = self._call("create", request)
        try:
            machine = answer_validation.parse_machine(
                answer_validation.parse_json_document(printed)
            )
        except ParseError as error:
            raise ProviderFailed(f"{self._call_text('create')}: {error}") from error
        if machine.name != name or not tags.items() <= machine.tags.items():
            problem = f"it tells of {machine.name}, {machine.id}, which is not as it was asked for"
            mend = f"`{self.program} destroy` ends a node that nobody uses"
            raise ProviderFailed(f"{self._call_text('create')}: {problem}; {mend}")
        return machine

    def destroy(self, machine: ProviderMachine) -> None:
        """Destroy a machine with its disk."""
        self._call("destroy", {"id": machine.id})

    def machines(self) -> tuple[ProviderMachine, ...]:
        """Return all machines; one invalid entry rejects the whole list."""
        printed = self._call("list", {})
        try:
            return answer_validation.parse_machine_list(printed, self.cluster)
        except ParseError as error:
            raise ProviderFailed(f"{self._call_text('list')}: {error}") from error

    def _call(self, verb: str, request: Mapping[str, object]) -> bytes:
        stdin = json.dumps(request).encode() + b"\n"
        return program.run_provider_program((self.program, verb), self.env, self.timeout_s, stdin)

    def _call_text(self, verb: str) -> str:
        return program.join_command_words((self.program, verb))
