"""What an index of 500,000 keys costs, built by ordinary updates in a store whose cache is dropped before every flush."""

from __future__ import annotations

from bench.index import measure

ENTRY_AND_CONTENT_BYTES = 500
"""Less than a log entry and a content object take: with the real ones the growth is smaller and the limit is still far."""


def test_an_update_at_500_000_keys_costs_hardly_more_than_at_1_000() -> None:
    costs = {cost.keys: cost for cost in measure((1_000, 100_000, 500_000), cold=True)}
    assert costs[100_000].bytes_per_update <= 200
    assert costs[500_000].bytes_per_update <= 250
    written = {keys: ENTRY_AND_CONTENT_BYTES + cost.bytes_per_update for keys, cost in costs.items()}
    assert written[500_000] <= 2_500
    assert written[500_000] <= 1.5 * written[1_000]
    for cost in costs.values():
        assert 0 < cost.objects_read_per_update <= 0.5
        assert cost.objects_written_per_update <= 0.1
        assert cost.flush_bytes_max <= 1_000_000
