"""Pages that polls ask for again are kept within a bound, and only as long as nothing is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.service.feed import changes
from tests.support.fixtures.access_rig import access_rig

MAIN = "cat/1/heads/main"
CHANGES = "/feed/v1/alpha/changes"


def test_large_pages_are_kept_too_within_their_bytes_until_the_head_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "KEPT_BYTES_MAX", 40_000)
    with access_rig(tmp_path) as rig:
        kept, token = rig.service.changes, rig.token("alpha")
        for number in range(10):
            rig.commit("alpha", *[(f"n{number}", f"k{key}") for key in range(20)], *[(f"n{number}",)])
        first = rig.get(f"{CHANGES}?pointer={MAIN}&after=1&limit=2", token)
        assert len(first.content) > 8_000
        (page,) = kept._kept.values()
        assert rig.get(f"{CHANGES}?pointer={MAIN}&after=1&limit=2", token).content == first.content
        assert next(iter(kept._kept.values())) is page, "it was not built again"
        for after in range(8):
            rig.get(f"{CHANGES}?pointer={MAIN}&after={after}&limit=2", token)
            held = sum(len(key[1]) + len(one.answer.body) for key, one in kept._kept.items())
            assert kept._kept_bytes == held <= 40_000
        assert 1 < len(kept._kept) < 8, "the oldest went"
        rig.commit("alpha", ("more",))
        again = rig.get(f"{CHANGES}?pointer={MAIN}&after=7&limit=2", token).json()
        assert again["head"]["seq"] == 12 and [change["seq"] for change in again["changes"]] == [8, 9]
