"""Numbers for whoever watches over a site, named by the rules of Prometheus.

Labels have few values: clusters, queues, states, pools, causes and kinds, never people or jobs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

PREFIX = "gridbridge_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One number."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """Numbers of one name, each with other values of the same labels."""

    name: str  # a counter's ends with _total
    means: str
    samples: tuple[MetricSample, ...]
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether it only ever grows, or begins anew at 0."""
        return self.name.endswith("_total")


def one(name: str, means: str, value: float | None) -> MetricFamily:
    """Return a number without labels; no number at all where it is not known."""
    samples = () if value is None else (MetricSample(value=value),)
    return MetricFamily(name=PREFIX + name, means=means, samples=samples)


def several(
    name: str, means: str, labels: str, rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> MetricFamily:
    """Return numbers with labels, whose names have blanks between; those not known are left out.

    Rows of the same labels are added up.
    """
    names = tuple(labels.split())
    sums = dict[tuple[str, ...], float]()
    for values, number in rows:
        if number is not None:
            sums[values] = sums.get(values, 0.0) + number
    samples = tuple(
        MetricSample(value=sums[values], labels=dict(zip(names, values, strict=True)))
        for values in sorted(sums)
    )
    return MetricFamily(name=PREFIX + name, means=means, samples=samples, labels=names)


def timestamp(at: datetime | None) -> float | None:
    """Return seconds since 1970."""
    return None if at is None else at.timestamp()
