"""Nessie's own Java client, from Maven Central, does its ordinary work against the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.schemas.entry_ids import EMPTY
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.servers.nessie_jvm import NessieJvm, nessie_jvm, refused


@pytest.fixture(scope="module")
def java() -> Iterator[NessieJvm]:
    with nessie_jvm() as running:
        yield running


@pytest.fixture
def api(java: NessieJvm, branch: FeedBranch) -> Any:
    return java.client(f"{branch.server.url}/api/v2")


@pytest.fixture
def main(api: Any, branch: FeedBranch) -> Any:
    """A branch of the test's own."""
    return api.getReference().refName(branch.name).get()


def entries_of(api: Any, reference: Any) -> dict[str, str]:
    found = api.getEntries().reference(reference).get().getEntries()
    return {str(entry.getName()): str(entry.getType()) for entry in found}


def with_table(java: NessieJvm, api: Any, main: Any) -> tuple[Any, str]:
    """The branch with a namespace and a table, and the table's content id."""
    made = java.commit(
        api, main, "First", java.put(java.key("a"), java.namespace("a")), java.put(java.key("a", "t"), java.table("v1"))
    )
    ids = {str(added.getKey()): added.contentId() for added in made.getAddedContents()}
    return made.getTargetBranch(), ids["a.t"]


def test_the_client_accepts_the_configuration(java: NessieJvm, api: Any) -> None:
    config = api.getConfig()
    assert (config.getDefaultBranch(), config.getSpecVersion(), config.getNoAncestorHash()) == ("main", "2.2.0", EMPTY.hex())
    assert (config.getMinSupportedApiVersion(), config.getMaxSupportedApiVersion()) == (2, 2)
    assert api.getDefaultBranch().getName() == "main"


def test_contents_of_every_type_are_read_as_they_were_committed(java: NessieJvm, api: Any, main: Any) -> None:
    model = java.model
    contents = {
        "table": java.table("s3://lake/t"),
        "view": model.IcebergView.of("s3://lake/v", 7, 8),
        "function": model.UDF.udf("s3://lake/f", "1", "2"),
        "delta": model.ImmutableDeltaLakeTable.builder()
        .addMetadataLocationHistory("m1")
        .addCheckpointLocationHistory("c1")
        .lastCheckpoint("x")
        .build(),
    }
    keys = {name: java.key("ns.dot", f"{name}/%") for name in contents}
    space = java.put(java.key("ns.dot"), java.namespace("ns.dot"))
    puts = [java.put(keys[name], content) for name, content in contents.items()]
    made = java.commit(api, main, "All", space, *puts, author="ada")
    ids = {str(added.getKey()): added.contentId() for added in made.getAddedContents()}
    for name, content in contents.items():
        one = api.getContent().refName(main.getName()).getSingle(keys[name])
        assert one.getContent().equals(content.withId(ids[f"ns.dot.{name}/%"]))
        assert one.getEffectiveReference().equals(made.getTargetBranch())
    many = api.getContent().refName(main.getName()).keys([*keys.values(), java.key("no")]).getWithResponse()
    assert len(many.getContents()) == len(contents)
    with refused("NessieContentNotFoundException") as told:
        api.getContent().refName(main.getName()).getSingle(java.key("ns.dot", "no"))
    assert told.exception.getErrorDetails().contentKey().equals(java.key("ns.dot", "no"))


def test_references_are_created_listed_assigned_and_deleted(java: NessieJvm, api: Any, main: Any) -> None:
    there, _ = with_table(java, api, main)
    name = f"{main.getName()}/feature.x"
    made = api.createReference().sourceRefName(main.getName()).reference(java.model.Branch.of(name, there.getHash())).create()
    assert made.equals(java.model.Branch.of(name, there.getHash()))
    tag = api.createReference().reference(java.model.Tag.of(f"{main.getName()}-v1", EMPTY.hex())).create()
    assert api.getReference().refName(name).get().equals(made)
    with refused("NessieReferenceAlreadyExistsException"):
        api.createReference().reference(java.model.Tag.of(name, EMPTY.hex())).create()
    with refused("NessieReferenceNotFoundException"):
        api.getReference().refName("never-made").get()
    listed = api.getAllReferences().filter(f"refType == 'BRANCH' && ref.name.startsWith('{main.getName()}/')").get()
    assert [reference.getName() for reference in listed.getReferences()] == [name]
    moved = api.assignReference().reference(tag).assignTo(there).assignAndGet()
    assert moved.getHash() == there.getHash()
    with refused("NessieReferenceConflictException") as told:
        api.deleteReference().reference(tag).getAndDelete()
    assert told.conflicts == [("UNEXPECTED_HASH", ())]
    assert api.deleteReference().reference(moved).getAndDelete().equals(moved)
    with refused("NessieBadRequestException"):
        api.deleteReference().reference(api.getDefaultBranch()).getAndDelete()
    facts = api.getReference().refName(name).fetch(java.model.FetchOption.ALL).get().getMetadata()
    assert facts.getNumTotalCommits() == 1 and facts.getCommitMetaOfHEAD().getMessage() == "First"


def test_commits_put_delete_and_keep(java: NessieJvm, api: Any, main: Any) -> None:
    first, id = with_table(java, api, main)
    table = java.key("a", "t")
    second = java.commit(api, first, "Second", java.put(table, java.table("v2", id))).getTargetBranch()
    # Seen at the first commit, changed since: the client is told which key.
    with refused("NessieReferenceConflictException") as told:
        java.commit(api, first, "Stale", java.put(table, java.table("v3", id)))
    assert told.conflicts == [("VALUE_DIFFERS", ("a", "t"))]
    # Other keys may change on: conflicts are looked for key by key since the commit that was seen.
    third = java.commit(api, first, "Other key", java.put(java.key("a", "u"), java.table("u1"))).getTargetBranch()
    with refused("NessieReferenceConflictException") as told:
        java.commit(api, first, "Read", java.put(java.key("a", "w"), java.table("w")), java.unchanged(table))
    assert told.conflicts == [("VALUE_DIFFERS", ("a", "t"))]
    java.commit(api, second, "Read", java.put(java.key("a", "w"), java.table("w")), java.unchanged(table))
    last = java.commit(api, third, "Drop", java.delete(table)).getTargetBranch()
    assert entries_of(api, last) == {"a": "NAMESPACE", "a.u": "ICEBERG_TABLE", "a.w": "ICEBERG_TABLE"}


def test_refusals_reach_the_client_as_its_own_exceptions(java: NessieJvm, api: Any, main: Any) -> None:
    there, id = with_table(java, api, main)
    with refused("NessieReferenceConflictException") as told:
        java.commit(
            api, there, "All wrong", java.put(java.key("b", "t"), java.table("x")), java.delete(java.key("a")),
            java.delete(java.key("no")),
        )  # fmt: skip
    assert set(told.conflicts) == {
        ("NAMESPACE_ABSENT", ("b",)),
        ("NAMESPACE_NOT_EMPTY", ("a",)),
        ("KEY_DOES_NOT_EXIST", ("no",)),
    }
    with refused("NessieBadRequestException"):
        java.commit(api, there, "New value without its id", java.put(java.key("a", "t"), java.table("v2")))
    with refused("NessieBadRequestException"):
        java.commit(api, there, "New content with an id", java.put(java.key("a", "n"), java.table("v2", id)))
    with refused("NessieReferenceNotFoundException"):
        java.commit(api, java.model.Branch.of("no-branch", EMPTY.hex()), "m", java.delete(java.key("a")))
    with refused("NessieReferenceNotFoundException"):
        java.commit(api, java.model.Branch.of(there.getName(), "ab" * 32), "m", java.delete(java.key("a", "t")))
    assert api.getReference().refName(there.getName()).get().equals(there)


def test_a_delete_and_a_put_of_one_content_are_a_rename(java: NessieJvm, api: Any, main: Any, branch: FeedBranch) -> None:
    there, id = with_table(java, api, main)
    renamed = java.commit(
        api, there, "Rename", java.delete(java.key("a", "t")), java.put(java.key("a", "n"), java.table("v1", id))
    )
    assert entries_of(api, renamed.getTargetBranch()) == {"a": "NAMESPACE", "a.n": "ICEBERG_TABLE"}
    (change,) = branch.changes(after=there.getHash())["changes"]
    assert [(op["op"], op["key"], op["from_key"]) for op in change["operations"]] == [("rename", ["a", "n"], ["a", "t"])]
    changed = java.commit(
        api, renamed.getTargetBranch(), "Rename and change", java.delete(java.key("a", "n")),
        java.put(java.key("a", "o"), java.table("v2", id)),
    )  # fmt: skip
    content = api.getContent().reference(changed.getTargetBranch()).getSingle(java.key("a", "o")).getContent()
    assert (content.getId(), content.getMetadataLocation()) == (id, "v2")


def test_the_log_is_paged_filtered_and_limited(java: NessieJvm, api: Any, main: Any) -> None:
    there, id = with_table(java, api, main)
    hashes = [there.getHash()]
    for number in range(4):
        put = java.put(java.key("a", "t"), java.table(f"v{number + 2}", id))
        there = java.commit(api, there, f"Change {number}", put, author="ada" if number % 2 else "bob").getTargetBranch()
        hashes.append(there.getHash())
    newest_first = hashes[::-1]

    def told(request: Any) -> list[str]:
        return [entry.getCommitMeta().getHash() for entry in request.get().getLogEntries()]

    assert told(api.getCommitLog().reference(there)) == newest_first
    streamed = api.getCommitLog().refName(there.getName()).maxRecords(2).stream().toArray()
    assert [entry.getCommitMeta().getHash() for entry in streamed] == newest_first  # the client follows the tokens
    assert told(api.getCommitLog().refName(there.getName()).filter("commit.author == 'ada'")) == [hashes[4], hashes[2]]
    assert told(api.getCommitLog().refName(there.getName()).untilHash(hashes[3])) == newest_first[:2]
    assert told(api.getCommitLog().refName(there.getName()).hashOnRef(f"{hashes[4]}~2")) == newest_first[2:]
    full = api.getCommitLog().refName(there.getName()).fetch(java.model.FetchOption.ALL)
    entry = full.filter("operations.exists(op, op.type == 'PUT' && op.key == 'a')").get().getLogEntries()[0]
    assert [str(op.getKey()) for op in entry.getOperations()] == ["a", "a.t"]
    assert entry.getParentCommitHash() == EMPTY.hex()
    with refused("NessieBadRequestException"):
        api.getCommitLog().refName(there.getName()).filter("commit.nonsense == 1").get()


def test_entries_are_found_by_prefix_range_filter_and_page(java: NessieJvm, api: Any, main: Any) -> None:
    tables = [("a", "t1"), ("a", "t2"), ("b", "t1"), ("b", "t2")]
    spaces = [java.put(java.key(name), java.namespace(name)) for name in "ab"]
    puts = [java.put(java.key(*key), java.table(".".join(key))) for key in tables]
    there = java.commit(api, main, "Tables", *spaces, *puts).getTargetBranch()

    def names(request: Any) -> list[str]:
        return [str(entry.getName()) for entry in request.stream().toArray()]

    def ask() -> Any:
        return api.getEntries().reference(there)

    assert names(ask().maxRecords(1)) == ["a", "a.t1", "a.t2", "b", "b.t1", "b.t2"]
    assert names(ask().prefixKey(java.key("b"))) == ["b", "b.t1", "b.t2"]
    assert names(ask().minKey(java.key("a", "t2")).maxKey(java.key("b", "t1"))) == ["a.t2", "b", "b.t1"]
    assert names(ask().key(java.key("b", "t2")).key(java.key("no"))) == ["b.t2"]
    wanted = "entry.contentType == 'ICEBERG_TABLE' && entry.namespace == 'a' && entry.encodedKey.endsWith('2')"
    assert names(ask().filter(wanted)) == ["a.t2"]
    with_content = ask().key(java.key("a", "t1")).withContent(True).get()
    assert with_content.getEntries()[0].getContent().getMetadataLocation() == "a.t1"
    assert with_content.getEffectiveReference().equals(there)


def test_branches_are_merged_dry_run_and_refused(java: NessieJvm, api: Any, main: Any) -> None:
    there, id = with_table(java, api, main)
    side = api.createReference().reference(java.model.Branch.of(f"{main.getName()}-side", there.getHash())).create()
    side = java.commit(api, side, "New on side", java.put(java.key("a", "n"), java.table("n1"))).getTargetBranch()
    tried = api.mergeRefIntoBranch().branch(there).fromRef(side).dryRun(True).merge()
    assert (tried.wasApplied(), tried.wasSuccessful()) == (False, True)
    assert tried.getResultantTargetHash() == there.getHash()
    merged = api.mergeRefIntoBranch().branch(there).fromRef(side).message("Bring it").merge()
    assert (merged.wasApplied(), merged.wasSuccessful()) == (True, True)
    assert merged.getCommonAncestor() == there.getHash()
    assert [str(one.getKey()) for one in merged.getDetails()] == ["a.n"]
    newest = api.getCommitLog().refName(main.getName()).maxRecords(1).get().getLogEntries()[0].getCommitMeta()
    assert newest.getMessage() == "Bring it" and list(newest.getParentCommitHashes()) == [there.getHash(), side.getHash()]
    again = api.mergeRefIntoBranch().branch(there).fromRef(side).merge()
    assert (again.wasApplied(), again.wasSuccessful()) == (False, True)

    ours = api.getReference().refName(main.getName()).get()
    java.commit(api, ours, "Ours", java.put(java.key("a", "t"), java.table("ours", id)))
    side = java.commit(api, side, "Theirs", java.put(java.key("a", "t"), java.table("theirs", id))).getTargetBranch()
    with refused("NessieReferenceConflictException") as told:
        api.mergeRefIntoBranch().branch(ours).fromRef(side).merge()
    assert told.conflicts == [("VALUE_DIFFERS", ("a", "t"))]
    shown = api.mergeRefIntoBranch().branch(ours).fromRef(side).returnConflictAsResult(True).merge()
    assert (shown.wasApplied(), shown.wasSuccessful()) == (False, False)
    assert str(shown.getDetails()[0].getConflict().conflictType()) == "VALUE_DIFFERS"
    force = java.model.MergeBehavior.FORCE
    api.mergeRefIntoBranch().branch(ours).fromRef(side).mergeMode(java.key("a", "t"), force).merge()
    content = api.getContent().refName(main.getName()).getSingle(java.key("a", "t")).getContent()
    assert content.getMetadataLocation() == "theirs"


def test_commits_are_transplanted(java: NessieJvm, api: Any, main: Any) -> None:
    there, _ = with_table(java, api, main)
    side = api.createReference().reference(java.model.Branch.of(f"{main.getName()}-picked", there.getHash())).create()
    made = []
    for number in range(3):
        put = java.put(java.key("a", f"n{number}"), java.table(f"n{number}"))
        side = java.commit(api, side, f"Table {number}", put, author="ada").getTargetBranch()
        made.append(side.getHash())
    picked = api.transplantCommitsIntoBranch().branch(there).fromRefName(side.getName())
    done = picked.hashesToTransplant([made[0], made[2]]).transplant()
    assert done.wasApplied() and done.getCommonAncestor() is None
    log = api.getCommitLog().refName(main.getName()).get().getLogEntries()
    assert [entry.getCommitMeta().getMessage() for entry in log] == ["Table 2", "Table 0", "First"]
    assert log[0].getCommitMeta().getAuthor() == "ada"


def test_two_states_are_compared(java: NessieJvm, api: Any, main: Any) -> None:
    there, id = with_table(java, api, main)
    newer = java.commit(
        api, there, "More", java.put(java.key("a", "t"), java.table("v2", id)), java.put(java.key("a", "u"), java.table("u"))
    ).getTargetBranch()
    found = api.getDiff().fromRef(there).toRef(newer).get()
    told = {str(one.getKey()): (one.getFrom(), one.getTo()) for one in found.getDiffs()}
    assert set(told) == {"a.t", "a.u"} and told["a.u"][0] is None
    assert (told["a.t"][0].getMetadataLocation(), told["a.t"][1].getMetadataLocation()) == ("v1", "v2")
    assert found.getEffectiveFromReference().equals(there) and found.getEffectiveToReference().equals(newer)
    paged = api.getDiff().fromRefName(newer.getName()).fromHashOnRef(f"{newer.getHash()}~1").toRef(newer).maxRecords(1)
    assert [str(one.getKey()) for one in paged.stream().toArray()] == ["a.t", "a.u"]
    filtered = api.getDiff().fromRef(there).toRef(newer).filter("key.name == 'u'").get()
    assert [str(one.getKey()) for one in filtered.getDiffs()] == ["a.u"]


def test_headers_of_the_client_set_the_committer(java: NessieJvm, branch: FeedBranch) -> None:
    said = (("Nessie-Commit-Authors", "ada, bob"), ("Nessie-Commit-Property-Job", "nightly"))
    api = java.client(f"{branch.server.url}/api/v2", *said)
    main = api.getReference().refName(branch.name).get()
    java.commit(api, main, "Signed", java.put(java.key("a"), java.namespace("a")))
    meta = api.getCommitLog().refName(branch.name).get().getLogEntries()[0].getCommitMeta()
    assert list(meta.getAllAuthors()) == ["ada", "bob"]
    assert list(meta.getAllProperties()["job"]) == ["nightly"]
    (change,) = branch.changes(after="latest", limit=1)["changes"] or branch.changes()["changes"][-1:]
    assert (change["author"], change["headers"]["job"]) == ("dev", "nightly")


def test_recent_heads_of_a_branch_are_returned(java: NessieJvm, api: Any, main: Any) -> None:
    there, id = with_table(java, api, main)
    newer = java.commit(api, there, "More", java.put(java.key("a", "t"), java.table("v2", id))).getTargetBranch()
    history = api.referenceHistory().refName(main.getName()).headCommitsToScan(10).get()
    assert history.current().commitHash() == newer.getHash()
    assert [head.commitHash() for head in history.previous()] == [there.getHash(), main.getHash()]
    assert str(history.commitLogConsistency()) == "COMMIT_CONSISTENT"
