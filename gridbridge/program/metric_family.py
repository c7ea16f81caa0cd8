"""Build metrics for Prometheus, named by its conventions.

Labels are clusters, queues, states, pools, causes and kinds. They never name people or jobs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

PREFIX = "gridbridge_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One value of a metric with its labels."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A metric: all samples of one name, with the same label names."""

    name: str  # names of counters end with _total
    means: str
    samples: tuple[MetricSample, ...]
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether the metric only grows, or restarts at 0."""
        return self.name.endswith("_total")


def metric_without_labels(name: str, means: str, value: float | None) -> MetricFamily:
    """Return a metric without labels; it has no sample if the value is unknown."""
    samples = () if value is None else (MetricSample(value=value),)
    return MetricFamily(name=PREFIX + name, means=means, samples=samples)


def metric_with_labels(
    name: str, means: str, labels: str, rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> MetricFamily:
    """Return a metric with labels; rows with an unknown value are left out.

    `labels` are label names separated by blanks. Values of rows with equal labels are added up.
    """
    names = tuple(labels.split())
    sums = dict[tuple[str, ...], float]()
    for values, number in rows:
        if number is not None:
            sums[values] = sums.get(values, 0.0) + number
    samples = tuple(
        MetricSample(value=sums[values], labels=dict(zip(names, values, strict=True))) for values in sorted(sums)
    )
    return MetricFamily(name=PREFIX + name, means=means, samples=samples, labels=names)


def unix_timestamp(at: datetime | None) -> float | None:
    """Return a time as Unix seconds; None for None."""
    return None if at is None else at.timestamp()
