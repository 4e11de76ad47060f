"""The Nessie-compatible API over HTTP: what the Java client does not show, races, bounds, and refusals that change nothing."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from headwater.embedded import CatalogHandle
from headwater.schemas.entry_ids import EMPTY
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.servers.feed_server import FeedServer


class Api:
    """The API as a test uses it, on a branch of its own."""

    def __init__(self, branch: FeedBranch) -> None:
        self.branch = branch
        self.ref = f"{branch.name}@"
        self.http = httpx.Client(base_url=f"{branch.server.url}/api/v2", headers={"Nessie-Client-Spec": "2"}, timeout=30)

    def get(self, path: str, status: int = 200, **parameters: Any) -> dict[str, Any]:
        return self._told(self.http.get(path, params=parameters), status)

    def post(self, path: str, body: object, status: int = 200, **options: Any) -> dict[str, Any]:
        return self._told(self.http.post(path, json=body, **options), status)

    def commit(self, *operations: dict[str, Any], at: str = "", status: int = 200, **options: Any) -> dict[str, Any]:
        body = {"commitMeta": {"message": "m"}, "operations": operations}
        return self.post(f"/trees/{self.ref}{at}/history/commit", body, status, **options)

    @property
    def head(self) -> str:
        hash: str = self.get(f"/trees/{self.ref}")["reference"]["hash"]
        return hash

    @staticmethod
    def _told(answer: httpx.Response, status: int) -> dict[str, Any]:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/json"
        told: dict[str, Any] = answer.json()
        return told


@pytest.fixture
def api(branch: FeedBranch) -> Iterator[Api]:
    api = Api(branch)
    with api.http:
        yield api


def key(*elements: str) -> dict[str, Any]:
    return {"elements": elements}


def put(*elements: str, location: str = "x", id: str | None = None) -> dict[str, Any]:
    content = {"type": "ICEBERG_TABLE", "metadataLocation": location, "snapshotId": 1, "id": id}
    return {"type": "PUT", "key": key(*elements), "content": content}


def space(*elements: str) -> dict[str, Any]:
    return {"type": "PUT", "key": key(*elements), "content": {"type": "NAMESPACE", "elements": elements}}


def delete(*elements: str) -> dict[str, Any]:
    return {"type": "DELETE", "key": key(*elements)}


# ── commits ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_commit_is_in_the_feed_with_its_content_ids(api: Api) -> None:
    made = api.commit(space("a"), put("a", "t"))
    (change,) = api.branch.changes(after=1)["changes"]
    assert change["commit_id"] == made["targetBranch"]["hash"] == api.head
    told = [(one["key"]["elements"], one["contentId"]) for one in made["addedContents"]]
    assert [(op["key"], op["content_id"]) for op in change["operations"]] == told


def test_the_same_key_answers_once(api: Api) -> None:
    key = {"Idempotency-Key": f"nessie-{api.branch.name}"}
    first = api.commit(put("t"), headers=key)
    assert api.commit(put("t"), headers=key) == first
    assert len(api.branch.changes(after=1)["changes"]) == 1
    assert api.commit(put("u"), headers=key, status=400)["errorCode"] == "BAD_REQUEST"
    named = {"Idempotency-Key": f"branch-{api.branch.name}"}
    path, body = f"/trees?name={api.branch.name}-once&type=BRANCH", {"type": "BRANCH", "name": api.branch.name}
    assert api.post(path, body, headers=named) == api.post(path, body, headers=named)


def test_writers_without_a_hash_on_different_keys_never_conflict(api: Api) -> None:
    faults: list[BaseException] = []

    def write(name: str) -> None:
        try:
            id = None
            for number in range(10):
                made = api.commit(put(name, location=str(number), id=id))
                id = id or made["addedContents"][0]["contentId"]
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    log = api.get(f"/trees/{api.ref}/history")["logEntries"]
    assert len(log) == 80
    parents = [entry["parentCommitHash"] for entry in log]
    assert parents == [entry["commitMeta"]["hash"] for entry in log[1:]] + [EMPTY.hex()]


def test_of_two_commits_that_create_one_key_one_gets_a_conflict(api: Api) -> None:
    seen = api.head
    api.commit(put("t"), at=seen)
    assert _conflicts(api.commit(put("t", location="y"), at=seen, status=409)) == [("KEY_EXISTS", ["t"])]
    assert _conflicts(api.commit(put("t", location="y"), status=409)) == [("KEY_EXISTS", ["t"])]


def test_reads_that_must_hold_are_held_against_what_was_seen(api: Api) -> None:
    id = api.commit(put("t"))["addedContents"][0]["contentId"]
    seen = api.head
    api.commit(put("t", location="y", id=id))
    keep = {"type": "UNCHANGED", "key": key("t")}
    assert _conflicts(api.commit(put("u"), keep, at=seen, status=409)) == [("VALUE_DIFFERS", ["t"])]
    newest = api.head
    assert api.commit(keep)["targetBranch"]["hash"] == newest == api.head


def test_a_packed_body_is_read_and_a_bomb_is_not(api: Api) -> None:
    body = msgspec.json.encode({"commitMeta": {"message": "m"}, "operations": [put("t")]})
    path, packed = f"/trees/{api.ref}/history/commit", {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert api.http.post(path, content=gzip.compress(body), headers=packed).status_code == 200
    before = api.head
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 1_000_000
    for content, status in ((bomb, 413), (gzip.compress(body)[:-9], 400), (body, 400)):
        answer = api.http.post(path, content=content, headers=packed)
        assert (answer.status_code, answer.json()["errorCode"]) == (status, "BAD_REQUEST")
    assert api.http.post(path, content=body, headers={"Content-Encoding": "br"}).status_code == 400
    assert api.head == before


BAD_COMMITS: dict[str, object] = {
    "no json": "{",
    "no meta": {"operations": [put("t")]},
    "no message": {"commitMeta": {"message": " "}, "operations": [put("t")]},
    "no operations": {"commitMeta": {"message": "m"}, "operations": []},
    "unknown operation": {"commitMeta": {"message": "m"}, "operations": [{"type": "MOVE", "key": key("t")}]},
    "unknown content": {
        "commitMeta": {"message": "m"},
        "operations": [{"type": "PUT", "key": key("t"), "content": {"type": "X"}}],
    },
    "no location": {
        "commitMeta": {"message": "m"},
        "operations": [{"type": "PUT", "key": key("t"), "content": {"type": "ICEBERG_TABLE"}}],
    },
    "blank location": {"commitMeta": {"message": "m"}, "operations": [put("t", location=" ")]},
    "empty element": {"commitMeta": {"message": "m"}, "operations": [put("")]},
    "control character": {"commitMeta": {"message": "m"}, "operations": [put("a\x1db")]},
    "no elements": {"commitMeta": {"message": "m"}, "operations": [put()]},
    "too many elements": {"commitMeta": {"message": "m"}, "operations": [put(*"abcdefghijklmnopqrstuvwxyz")]},
    "key twice": {"commitMeta": {"message": "m"}, "operations": [put("t"), delete("t")]},
    "no uuid": {"commitMeta": {"message": "m"}, "operations": [put("t", id="nonsense")]},
    "a hash of its own": {"commitMeta": {"message": "m", "hash": EMPTY.hex()}, "operations": [put("t")]},
    "a time of its own": {"commitMeta": {"message": "m", "commitTime": "2026-01-01T00:00:00Z"}, "operations": [put("t")]},
    "no time": {"commitMeta": {"message": "m", "authorTime": "noon"}, "operations": [put("t")]},
    "deep": '{"commitMeta":' * 20_000,
}


@pytest.mark.parametrize("body", BAD_COMMITS.values(), ids=BAD_COMMITS.keys())
def test_invalid_commits_change_nothing(api: Api, body: object) -> None:
    before = api.head
    content = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    answer = api.http.post(f"/trees/{api.ref}/history/commit", content=content)
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "BAD_REQUEST"), answer.text
    assert api.head == before


@pytest.mark.parametrize(
    ("reference", "status", "code"),
    [
        ("never-made", 404, "REFERENCE_NOT_FOUND"),
        ("main@" + "7b" * 32, 404, "REFERENCE_NOT_FOUND"),
        ("main@" + "ff" * 32, 404, "REFERENCE_NOT_FOUND"),
        ("main@abcdef12", 404, "REFERENCE_NOT_FOUND"),
        ("main~1", 400, "BAD_REQUEST"),
        ("empty", 400, "BAD_REQUEST"),  # a tag
        ("a..b", 400, "BAD_REQUEST"),
        ("@" + EMPTY.hex(), 400, "BAD_REQUEST"),
    ],
)
def test_commits_to_what_is_not_a_branch_are_refused(
    api: Api, shared_lake: CatalogHandle, reference: str, status: int, code: str
) -> None:
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    for what in ("commit", "merge", "transplant"):
        bodies = {"merge": {"fromRefName": api.branch.name}, "transplant": {"fromRefName": "main", "hashesToTransplant": ["x"]}}
        told = api.http.post(f"/trees/{reference}/history/{what}", json=bodies.get(what, body))
        assert told.status_code in (status, 400), told.text
        if what == "commit":
            assert (told.status_code, told.json()["errorCode"]) == (status, code)


@pytest.mark.parametrize("word", ["dryRun", "isDryRun"])
def test_a_dry_run_changes_nothing_in_either_spelling(api: Api, word: str) -> None:
    name = f"{api.branch.name}-tried"
    api.post(f"/trees?name={name}&type=BRANCH", {"type": "BRANCH", "name": api.branch.name})
    made = api.post(f"/trees/{name}/history/commit", {"commitMeta": {"message": "m"}, "operations": [put("t")]})
    before, hash = api.head, made["targetBranch"]["hash"]
    merged = api.post(f"/trees/{api.ref}/history/merge", {"fromRefName": name, word: True})
    picked = api.post(f"/trees/{api.ref}/history/transplant", {"fromRefName": name, "hashesToTransplant": [hash], word: True})
    for told in (merged, picked):
        assert (told["wasApplied"], told["wasSuccessful"], told["resultantTargetHash"]) == (False, True, before)
        assert [one["key"]["elements"] for one in told["details"]] == [["t"]]
    assert api.head == before


def test_a_hash_that_begins_like_a_content_names_no_commit(api: Api) -> None:
    api.commit(put("t"))
    (change,) = api.branch.changes(after=1)["changes"]
    for object_id in change["objects_added"]:
        made_up = object_id + "0" * 48
        for path in ("entries", "history", "contents/t", f"diff/{api.ref}"):
            assert api.get(f"/trees/{api.ref}{made_up}/{path}", 404)["errorCode"] == "REFERENCE_NOT_FOUND"
        assert api.commit(put("u"), at=made_up, status=404)["errorCode"] == "REFERENCE_NOT_FOUND"


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_states_are_read_at_steps_times_and_commits_without_a_name(api: Api) -> None:
    first = api.commit(space("a"))["targetBranch"]["hash"]
    api.commit(put("a", "t"))
    time = api.get(f"/trees/{api.ref}/history")["logEntries"][1]["commitMeta"]["commitTime"]
    name = api.branch.name
    for reference in (f"{name}~1", f"{name}^1", f"{name}*{time}", f"{name}@{first}", f"{name}@{api.head}~1"):
        told = api.get(f"/trees/{reference}/entries")
        assert told["effectiveReference"] == {"type": "BRANCH", "name": name, "hash": first}
        assert [entry["name"]["elements"] for entry in told["entries"]] == [["a"]]
    assert api.get(f"/trees/@{first}/entries")["effectiveReference"] == {"type": "DETACHED", "hash": first}
    assert api.get(f"/trees/{name}@{EMPTY.hex()}/entries")["entries"] == []
    assert api.get("/trees/-")["reference"]["name"] == "main"


def test_pages_of_entries_are_all_of_one_commit(api: Api) -> None:
    api.commit(*(put(f"t{number}") for number in range(5)))
    page = api.get(f"/trees/{api.ref}/entries", **{"max-records": 2})
    api.commit(put("t00"), delete("t4"))
    found = [entry["name"]["elements"][0] for entry in page["entries"]]
    while page["hasMore"]:
        last, page = page, api.get(f"/trees/{api.ref}/entries", **{"max-records": 2, "page-token": page["token"]})
        assert page["effectiveReference"] == last["effectiveReference"]
        found += [entry["name"]["elements"][0] for entry in page["entries"]]
    assert found == ["t0", "t1", "t2", "t3", "t4"]


def test_a_made_up_page_token_is_refused(api: Api) -> None:
    for path in ("entries", f"diff/{api.ref}"):
        assert api.get(f"/trees/{api.ref}/{path}", 400, **{"page-token": "nonsense"})["errorCode"] == "BAD_REQUEST"
    assert api.get(f"/trees/{api.ref}/history", 400, **{"page-token": "nonsense"})["errorCode"] == "BAD_REQUEST"


def test_contents_may_be_requested_by_get_too(api: Api) -> None:
    api.commit(space("a.b"), put("a.b", "t"))
    told = api.get(f"/trees/{api.ref}/contents", key=[".a*.b.t", "no.such"])
    assert [one["key"]["elements"] for one in told["contents"]] == [["a.b", "t"]]
    assert api.get(f"/trees/{api.ref}/contents/.a*.b.t")["content"]["type"] == "ICEBERG_TABLE"
    assert api.get(f"/trees/{api.ref}/contents/a%1Db.t")["content"]["metadataLocation"] == "x"


def test_history_of_a_branch_continues_over_its_base(api: Api) -> None:
    first = api.commit(put("t"))["targetBranch"]["hash"]
    name = f"{api.branch.name}-sub"
    api.post(f"/trees?name={name}&type=BRANCH", {"type": "BRANCH", "name": api.branch.name})
    body = {"commitMeta": {"message": "on sub"}, "operations": [put("u")]}
    api.post(f"/trees/{name}/history/commit", body)
    log = api.get(f"/trees/{name}/history", fetch="ALL")["logEntries"]
    assert [entry["commitMeta"]["message"] for entry in log] == ["on sub", "m"]
    assert log[0]["parentCommitHash"] == first and log[1]["commitMeta"]["hash"] == first
    metadata = api.get(f"/trees/{name}", fetch="ALL")["reference"]["metadata"]
    assert metadata["numTotalCommits"] == 2 and metadata["commitMetaOfHEAD"]["message"] == "on sub"


def test_commits_through_other_apis_are_in_the_log(api: Api) -> None:
    api.branch.commit("t", author="ada", message="Through the feed", headers={"job": "7"})
    (entry,) = api.get(f"/trees/{api.ref}/history", fetch="ALL")["logEntries"]
    meta = entry["commitMeta"]
    assert (meta["authors"], meta["message"], meta["allProperties"]) == (["ada"], "Through the feed", {"job": ["7"]})
    assert [(op["type"], op["key"]["elements"]) for op in entry["operations"]] == [("PUT", ["t"])]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("history", {"filter": "commit.author"}),
        ("history", {"filter": "1 +"}),
        ("history", {"max-records": "-1"}),
        ("history", {"fetch": "SOME"}),
        ("history", {"limit-hash": "xyz"}),
        ("entries", {"filter": "commit.author == 'x'"}),
        ("entries", {"content": "maybe"}),
        ("entries", {"prefix-key": "a", "min-key": "b"}),
        ("entries", {"min-key": ".a*x"}),
        ("contents/a..b", {}),
    ],
)
def test_invalid_questions_are_refused(api: Api, path: str, parameters: dict[str, str]) -> None:
    api.commit(put("t"))
    told = api.get(f"/trees/{api.ref}/{path}", 400, **parameters)
    assert told["errorCode"] == "BAD_REQUEST" and told["message"]


def test_unknown_paths_and_methods_get_errors_of_the_same_shape(api: Api) -> None:
    assert api.get("/nothing", 404)["errorCode"] == "UNKNOWN"
    answer = api.http.put("/config")
    assert answer.status_code == 405 and answer.headers["allow"] == "GET"
    assert api.http.get(f"{api.branch.server.url}/api/v1/config").json()["status"] == 404


def test_another_catalog_has_a_path_of_its_own(api: Api, shared_feed: FeedServer, shared_lake: CatalogHandle) -> None:
    name = f"other-{api.branch.name}".replace("/", "-")
    shared_lake.realm.create_catalog(name, author="ada")
    base = f"{shared_feed.url}/api/catalogs/{name}/v2"
    assert httpx.get(f"{base}/config").json()["defaultBranch"] == "main"
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    assert httpx.post(f"{base}/trees/main/history/commit", json=body).status_code == 200
    assert len(httpx.get(f"{base}/trees/main/entries").json()["entries"]) == 1
    assert httpx.get(f"{shared_feed.url}/api/catalogs/none/v2/config").status_code == 404


def _conflicts(told: dict[str, Any]) -> list[tuple[str, list[str]]]:
    assert told["errorCode"] == "REFERENCE_CONFLICT"
    return [(one["conflictType"], one["key"]["elements"]) for one in told["errorDetails"]["conflicts"]]


def test_a_catalog_may_require_an_expected_hash_for_every_write(
    api: Api, shared_feed: FeedServer, shared_lake: CatalogHandle
) -> None:
    name = f"strict-{api.branch.name}"
    shared_lake.realm.create_catalog(name, author="ada")
    setting = {"properties": {"write_without_hash": "refuse"}}
    assert httpx.patch(f"{shared_feed.url}/manage/v1/default/catalogs/{name}", json=setting).status_code == 200
    base = f"{shared_feed.url}/api/catalogs/{name}/v2"
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    for method, path, sent in (
        ("POST", "trees/main/history/commit", body),
        ("POST", "trees/main/history/merge", {"fromRefName": "main"}),
        ("PUT", "trees/main", {"type": "BRANCH", "name": "main", "hash": EMPTY.hex()}),
        ("POST", "trees?name=b&type=BRANCH", {"type": "BRANCH", "name": "main"}),
    ):
        answer = httpx.request(method, f"{base}/{path}", json=sent)
        assert answer.status_code == 400 and "hash must be provided" in answer.text, (path, answer.text)
    assert httpx.post(f"{base}/trees/main@{EMPTY.hex()}/history/commit", json=body).status_code == 200


def test_the_configuration_of_a_repository_is_kept_and_others_are_refused(
    api: Api, shared_feed: FeedServer, shared_lake: CatalogHandle
) -> None:
    name = f"configured-{api.branch.name}"
    shared_lake.realm.create_catalog(name, author="ada")
    base = f"{shared_feed.url}/api/catalogs/{name}/v2/config/repository"
    first = {"type": "GARBAGE_COLLECTOR", "defaultCutOffPolicy": "P30D"}
    second = {**first, "defaultCutOffPolicy": "P10D"}
    assert httpx.post(base, json={"config": first}).json() == {"previous": None}
    assert httpx.post(base, json={"config": second}).json() == {"previous": first}
    assert httpx.get(base, params={"type": "GARBAGE_COLLECTOR"}).json() == {"configs": [second]}
    assert httpx.post(base, json={"config": {"type": "OTHER"}}).status_code == 400
    assert httpx.get(base, params={"type": "OTHER"}).json() == {"configs": []}
