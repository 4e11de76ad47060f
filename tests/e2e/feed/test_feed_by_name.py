"""A feed is asked for by catalog and branch where a pointer is taken, and says no more about what may not be seen."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import FeedBranch
from tests.support.servers.feed_server import events


def test_pages_streams_and_snapshots_take_names(branch: FeedBranch) -> None:
    named = {"catalog": "lake", "branch": branch.name}
    by_pointer = branch.http.get("/changes", params={"pointer": branch.pointer}).json()
    assert branch.http.get("/changes", params=named).json() == by_pointer
    assert branch.http.get("/snapshot", params=named).json()["pointer"] == branch.pointer
    assert branch.http.get("/changes", params={"catalog": "lake"}).json()["changes"][0]["pointer"] == "cat/1/heads/main"
    with branch.http.stream("GET", "/stream", params=named) as stream:
        assert next(events(stream.iter_lines())).data["changes"][0]["pointer"] == branch.pointer


@pytest.mark.parametrize(
    ("params", "status", "field"),
    [
        ({"catalog": "nowhere"}, 404, "catalog"),
        ({"catalog": "lake", "branch": "nowhere"}, 404, "pointer"),
        ({"branch": "main"}, 400, "branch"),
        ({"catalog": "lake", "pointer": "cat/1/heads/main"}, 400, "catalog"),
        ({"catalog": "lake", "branch": "a*b"}, 400, "branch"),
    ],
)
@pytest.mark.parametrize("path", ["/changes", "/snapshot", "/stream"])
def test_names_that_mean_nothing_are_refused(
    branch: FeedBranch, path: str, params: dict[str, str], status: int, field: str
) -> None:
    refused = branch.http.get(path, params=params)
    assert (refused.status_code, refused.json()["field"]) == (status, field)
