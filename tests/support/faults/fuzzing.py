"""How hypothesis sends a server the requests that schemathesis generates from its description."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def asking(examples: int) -> settings:
    """The same questions in every run. Nothing is made smaller: the question that failed is told as it was asked."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
