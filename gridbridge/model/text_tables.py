"""Tables of texts in a section: who has which account elsewhere, and what a queue asks for."""


class Users(dict[str, str]):
    """Which person has which account there, for people who have another name there."""

    def account_of(self, person: str) -> str:
        """Return a person's account there: the one of the same name, unless another is listed."""
        return self.get(person, person)

    def person_of(self, account: str, cluster: str) -> str:
        """Return the person whose account it is, or ACCOUNT@CLUSTER if it is nobody's here."""
        for person, theirs in self.items():
            if theirs == account:
                return person
        return f"{account}@{cluster}" if account in self else account


class QueueDefaults(dict[str, str]):
    """What a queue's jobs ask for unless they do so themselves, by the resource's name at home."""
