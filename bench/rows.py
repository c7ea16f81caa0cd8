"""The output of a transfer benchmark: figures beside their baselines and targets."""

from dataclasses import dataclass

from bench.brief import IS_BRIEF, NOT_JUDGED, sized


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure, its baseline, and its largest (or smallest) allowed value."""

    what: str
    measured: float
    unit: str
    limit: float | None = None  # None: a part of another row
    baseline: float | None = None
    is_least: bool = False
    needs_whole: bool = False  # the target holds for whole sizes alone

    @property
    def is_met(self) -> bool:
        """Say whether the figure meets its target."""
        if self.limit is None or self._is_not_judged:
            return True
        return self.measured >= self.limit if self.is_least else self.measured <= self.limit

    @property
    def _is_not_judged(self) -> bool:
        return self.needs_whole and IS_BRIEF

    @property
    def target(self) -> str:
        """Return the target as text."""
        if self.limit is None:
            return ""
        if self._is_not_judged:
            return NOT_JUDGED
        return f"{'at least' if self.is_least else 'at most'} {self.limit:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of work that a benchmark measures."""

    transfers: int = sized(20, 4)
    ends: int = sized(15, 4)
    plain_ends: int = sized(5, 2)
    wait_s: float = sized(60.0, 15.0)


QUICK = Size(transfers=4, ends=4, plain_ends=2, wait_s=20.0)


def show(rows: list[Row]) -> None:
    """Print the table."""
    print(f"{'what':<32}{'measured':>10}  {'unit':<10}{'plain':>8}  target")
    for row in rows:
        plain = "" if row.baseline is None else f"{row.baseline:.2f}"
        print(f"{row.what:<32}{row.measured:>10.3f}  {row.unit:<10}{plain:>8}  {row.target}")
