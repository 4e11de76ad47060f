"""The parts of the Nessie-compatible API that need no server: keys, references, routes, filters, contents, errors."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.log.log_entry import Entry, LogRecord
from headwater.producer.commits.conflicts import ConflictDetail, ConflictKind, conflict_error
from headwater.producer.history.lineage import empty_state
from headwater.schemas import errors
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.service.nessie.content_json import content_json
from headwater.service.nessie.error_shape import error_response
from headwater.service.nessie.key_paths import key_path, old_key_path, parse_key_path
from headwater.service.nessie.meta_json import EXTRAS, MetaBody, meta_json, read_headers, to_meta
from headwater.service.nessie.operations.filters import COMMIT_NAMES, ENTRY_NAMES, CelFilter
from headwater.service.nessie.operations.key_ranges import KeyRange
from headwater.service.nessie.reference_paths import ReferencePath, parse_reference_path, reference_path
from headwater.service.nessie.routes import NESSIE
from headwater.service.routes import route_table

HASH = "ab" * 32
elements = st.text(st.characters(min_codepoint=0x20, blacklist_categories=("Cs",)), min_size=1, max_size=8)


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(elements, min_size=1, max_size=5).map(tuple))
def test_every_key_survives_its_path(key: tuple[str, ...]) -> None:
    assert parse_key_path(key_path(key)) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("foo.bar.baz", ("foo", "bar", "baz")),
        (".foo.*.bar.baz", ("foo", ".bar", "baz")),
        (".foo*..*.bar.a*{*}*[aa", ("foo.", ".bar", "a/\\%aa")),
        ("fo\x1do.bar", ("fo.o", "bar")),
        ("fo\x00o.bar", ("fo.o", "bar")),
        ("a*b.c", ("a*b", "c")),
    ],
)
def test_keys_are_read_as_clients_write_them(text: str, key: tuple[str, ...]) -> None:
    assert parse_key_path(text) == key


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", ".a*", ".a*x", ".a..b", "x" * 5_000])
def test_what_is_not_a_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_key_path(text)
    assert refused.value.field == "key" and refused.value.remedy


def test_filters_see_dots_inside_elements_as_separators_of_groups() -> None:
    assert old_key_path(("a.b", "c")) == "a\x1db.c"


def test_a_range_includes_its_ends_and_a_prefix_itself() -> None:
    lower, upper = KeyRange(smallest=("a",), largest=("b",)).bounds()
    assert lower <= b"a" < b"a\0x" < b"b" < upper <= b"b\0x"
    lower, upper = KeyRange(prefix=("a",)).bounds()
    assert lower <= b"a" < b"a\0x" < upper <= b"ab"
    with pytest.raises(InvalidInput):
        KeyRange(prefix=("a",), largest=("b",)).bounds()


# ── references ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("main", ReferencePath("main")),
        ("-", ReferencePath("-")),
        ("my/branch@", ReferencePath("my/branch")),
        (f"main@{HASH.upper()}", ReferencePath("main", HASH)),
        (f"main@{HASH}~2^1", ReferencePath("main", HASH, "~2^1")),
        (f"@{HASH}", ReferencePath(None, HASH)),
        (f"DETACHED@{HASH}", ReferencePath(None, HASH)),
        ("main~3", ReferencePath("main", "", "~3")),
        ("main*2021-04-07T14:42:25.534748123Z", ReferencePath("main", "", "*2021-04-07T14:42:25.534748123Z")),
    ],
)
def test_references_are_read_as_clients_write_them(text: str, parsed: ReferencePath) -> None:
    assert parse_reference_path(text) == parsed


@pytest.mark.parametrize("text", ["", "main@xyz", "main@abc", "main~x", "a..b", "main@@", "main~1@" + HASH])
def test_what_is_not_a_reference_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_reference_path(text)
    assert refused.value.field == "ref"


def test_a_write_names_its_expected_state_by_a_hash_and_not_only_by_relative_steps() -> None:
    reference_path("main", f"{HASH}~1").require_hash("Expected hash")
    with pytest.raises(InvalidInput, match="Expected hash must be provided"):
        reference_path("main", None).require_hash("Expected hash")
    with pytest.raises(InvalidInput, match="Expected hash must contain a starting commit ID"):
        reference_path("main", "~1").require_hash("Expected hash")


@pytest.mark.parametrize("text", ["@", "~1"])
def test_a_reader_without_a_reference_must_name_its_start(text: str) -> None:
    parse_reference_path("main~1").require_start("Expected hash")
    with pytest.raises(InvalidInput, match="Expected hash must"):
        parse_reference_path(text).require_start("Expected hash")


# ── routes ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "template", "names"),
    [
        ("config", "/config", {}),
        ("trees/main", "/trees/{ref}", {"ref": "main"}),
        ("trees/my/branch@", "/trees/{ref}", {"ref": "my/branch@"}),
        ("trees/my/branch@/history", "/trees/{ref}/history", {"ref": "my/branch@"}),
        ("trees/main/contents/a@b", "/trees/{ref}/contents/{key}", {"ref": "main", "key": "a@b"}),
        ("trees/x/y/z@/contents/k", "/trees/{ref}/contents/{key}", {"ref": "x/y/z@", "key": "k"}),
        ("trees/main/diff/dev", "/trees/{from}/diff/{to}", {"from": "main", "to": "dev"}),
        ("trees/my/branch@/diff/main", "/trees/{from}/diff/{to}", {"from": "my/branch@", "to": "main"}),
        ("trees/my/branch@/diff/other/one@", "/trees/{from}/diff/{to}", {"from": "my/branch@", "to": "other/one@"}),
    ],
)
def test_paths_lead_to_their_route(path: str, template: str, names: dict[str, str]) -> None:
    for prefix, more in (("/api/v2", {}), ("/api/catalogs/other/v2", {"catalog": "other"})):
        found = route_table().find({"path": f"{prefix}/{path}"})
        assert found.api is NESSIE and found.names == {**more, **names}
        assert {route.path for route in found.by_method.values()} == {f"/api/v2{template}"}


@pytest.mark.parametrize("path", ["", "tree", "trees/main/nothing", "trees/a/b", "trees/main/history/commit/x"])
def test_other_paths_lead_nowhere(path: str) -> None:
    found = route_table().find({"path": f"/api/v2/{path}"})
    assert found.api is NESSIE and not found.by_method


def test_read_only_routes_store_no_keys() -> None:
    assert {route.method for route in NESSIE.routes if not route.is_keyed} == {"GET", "POST"}


# ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────

COMMIT = {"author": "ada", "message": "all of it", "properties": {"k": "v"}}
OPERATIONS = [{"type": "PUT", "name": "t"}]


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        ("commit.author == 'ada'", True),
        ("commit.message.matches('of.*') && operations.exists(op, op.name == 't')", True),
        ("commit.properties['k'] == 'v'", True),
        ("commit.properties['none'] == 'v'", False),
        ("operations[7].name == 't'", False),
        ("operations.exists(op, op.name.matches('^[a-z]{1,9}$'))", True),
        ('commit.message.matches(r"\\w+ of") && commit.author != "it matches // this"', True),
        ("operations.all(op, op.type == 'DELETE')", False),
    ],
)
def test_filters_select_the_matching_items(expression: str, passes: bool) -> None:
    assert CelFilter(expression, COMMIT_NAMES).matches({"commit": COMMIT, "operations": OPERATIONS}) is passes


@pytest.mark.parametrize(
    "expression",
    [
        "commit.",
        "commit.author = 'ada'",
        "nothing == 1",
        "commit.nonsense == 'x'",
        "entry.name == 'x'",
        "(" * 500 + "true" + ")" * 500,
        "true || " * 300 + "true",
        "[1,2].all(a, [1,2].all(b, [1,2].all(c, [1,2].all(d, [1,2].all(e, true)))))",
        "operations.map(op, operations).size() > 0",
    ],
)
def test_invalid_filters_are_refused_before_anything_is_read(expression: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CelFilter(expression, COMMIT_NAMES)
    assert refused.value.field == "filter" and refused.value.remedy


@pytest.mark.parametrize("expression", ["commit.author", "commit.author > 3", "1 / 0 == 1", "commit.author.matches('(')"])
def test_filters_that_fail_during_evaluation_are_refused(expression: str) -> None:
    with pytest.raises(InvalidInput):
        CelFilter(expression, COMMIT_NAMES).matches({"commit": COMMIT, "operations": []})


@pytest.mark.parametrize(
    "expression",
    [
        f"[{','.join('1' * 300)}].exists(x, 'a'.matches('\\\\pL{{199}}'))",
        "commit.author.matches(r'\\pL{200}')",
        "commit.author.matches(r'(\\w{7}){7}')",
        "commit.author.matches(r'(?x)\\w{2 0}')",
        "commit.author.matches(r'((\\pL{30}){30}){30}')",
        "commit.author.matches(r'\\pL{0000000000900}')",
        "||".join(["commit.author.matches(r'\\pL{99}')"] * 40),
        "commit.author.matches(commit.message)",
        "commit.author.matches('a{9' + '00}')",
        "commit.author.matches('\\x7b')",
        "commit.author.matches('''a''')",
        "true // '\n || commit.author.matches(commit.message) // '",
        "commit.author == r'\\' || commit.author.matches(commit.message) || 'x' == ''",
    ],
)
def test_patterns_that_take_long_or_have_an_unknown_cost_are_refused_and_not_run(expression: str) -> None:
    begun = time.monotonic()
    with pytest.raises(InvalidInput) as refused:
        CelFilter(expression, COMMIT_NAMES).matches({"commit": COMMIT, "operations": OPERATIONS})
    assert refused.value.field == "filter"
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "pattern", ["^db[.]", r"\\d{4}-\\d{2}-\\d{2}", r"(?i)^[a-z_]{1,40}$", r"[\\w.-]+@[\\w.-]+", r"\\b\\w+\\b", "a|b|c.*"]
)
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    for literal in (f'r"{pattern}"', '"' + pattern.replace("\\", "\\\\") + '"'):
        CelFilter(f"commit.message.matches({literal})", COMMIT_NAMES).matches({"commit": {"message": "m" * 2_000}})


@pytest.mark.parametrize(
    ("expression", "items"),
    [
        ("operations.all(a, operations.all(b, true))", 1_000),
        ("operations.all(op, operations.size() > 0)", 1_000),
        ("operations.filter(a, true).size() > 0", 1_000),
        ("operations.exists(op, commit.message.matches(r'[ab]*a[ab]{40}c'))", 100),
        ("(operations + operations + operations).all(a, a.name in [commit.message, commit.author])", 1_000),
    ],
)
def test_a_filter_of_superlinear_cost_is_refused_and_not_run(expression: str, items: int) -> None:
    filter = CelFilter(expression, COMMIT_NAMES)
    filter.matches({"commit": COMMIT, "operations": OPERATIONS * 5})
    begun = time.monotonic()
    with pytest.raises(InvalidInput, match="steps"):
        filter.matches({"commit": COMMIT | {"message": "ab" * 500}, "operations": OPERATIONS * items})
    assert time.monotonic() - begun < 5


def test_a_filter_may_look_at_every_operation_of_a_large_commit() -> None:
    filter = CelFilter("operations.exists(op, op.type == 'PUT' && op.name == 'none')", COMMIT_NAMES)
    assert not filter.matches({"operations": OPERATIONS * 20_000})


def test_a_long_text_is_matched_by_a_plain_pattern_and_not_by_one_that_repeats() -> None:
    text = {"commit": COMMIT | {"message": "ab" * 8_000}}
    assert not CelFilter("commit.message.matches('[ab]*c')", COMMIT_NAMES).matches(text)
    with pytest.raises(InvalidInput, match="steps"):
        CelFilter("commit.message.matches('[ab]*a[ab]{99}c')", COMMIT_NAMES).matches(text)


def test_a_filter_knows_which_names_it_uses() -> None:
    assert CelFilter("commit.author == 'x'", COMMIT_NAMES).names == {"commit"}
    assert CelFilter("entry.name == 'x'", ENTRY_NAMES).names == {"entry"}


# ── who and why, contents, errors ───────────────────────────────────────────────────────────────────────────


def logged(**fields: object) -> LogRecord:
    entry: Entry = msgspec.structs.replace(empty_state("cat/1/heads/main").entry, **fields)
    return LogRecord(b"\1" * 32, entry)


def test_commit_metadata_of_a_client_survives_a_round_trip() -> None:
    body = MetaBody(
        message="Why",
        authors=["ada", "bob"],
        all_signed_off_by=["eve"],
        author_time="2026-01-31T12:00:00Z",
        all_properties={"one": ["1"], "many": ["1", "2"], EXTRAS: ["mine"]},
    )
    meta = to_meta(body, None, "service")
    assert (meta.author, meta.headers["one"]) == ("service", "1")
    told = meta_json(logged(author=meta.author, message=meta.message, headers=meta.headers))
    assert told["authors"] == ["ada", "bob"] and told["allSignedOffBy"] == ["eve"]
    assert told["committer"] == "service" and told["authorTime"] == "2026-01-31T12:00:00.000000Z"
    assert told["allProperties"] == {"one": ["1"], "many": ["1", "2"], EXTRAS: ["mine"]}


def test_headers_add_to_the_metadata_of_the_body() -> None:
    headers = read_headers(
        [
            (b"host", b"x"),
            (b"nessie-commit-message", b" Other "),
            (b"nessie-commit-authors", b"bob, eve"),
            (b"nessie-commit-property-job", b"7"),
        ]
    )
    meta = to_meta(MetaBody(message="Why"), headers, "service")
    assert (meta.author, meta.message, meta.headers["job"]) == ("service", "Other", "7")
    assert read_headers([(b"host", b"x")]) is None


def test_no_header_of_an_entry_names_its_committer() -> None:
    forged = {EXTRAS: '{"committer": "root", "authors": ["ada"]}'}
    told = meta_json(logged(author="ann", message="m", headers=forged))
    assert (told["committer"], told["authors"]) == ("ann", ["ada"])


@pytest.mark.parametrize("field", ["hash", "committer", "commit_time"])
def test_headers_that_the_server_sets_are_not_accepted_from_a_client(field: str) -> None:
    with pytest.raises(InvalidInput):
        to_meta(MetaBody(message="m", **{field: "x"}), None, "service")  # type: ignore[arg-type]


def test_a_header_of_another_api_that_looks_like_ours_is_a_property() -> None:
    assert meta_json(logged(headers={EXTRAS: "no json"}))["allProperties"] == {EXTRAS: ["no json"]}


def test_missing_numbers_of_a_table_are_shown_as_minus_one() -> None:
    told = content_json(("a", "t"), "ICEBERG_TABLE", bytes(16), {"metadata_location": "x", "schema_id": 3})
    assert (told["snapshotId"], told["schemaId"], told["specId"], told["metadataLocation"]) == (-1, 3, 0, "x")
    assert content_json(("a",), "NAMESPACE", bytes(16), {"properties": {"p_q": "v"}})["properties"] == {"p_q": "v"}


def scope(*headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"headers": list(headers)}


def test_clients_that_support_details_get_detailed_conflicts() -> None:
    conflict = conflict_error([ConflictDetail(ConflictKind.KEY_EXISTS, ("a", "t"), "It is there.")])
    told = msgspec.json.decode(error_response(conflict, scope((b"nessie-client-spec", b"2.0"))).body)
    assert told["errorCode"] == "REFERENCE_CONFLICT" and told["status"] == 409 and told["reason"] == "Conflict"
    assert told["errorDetails"] == {
        "type": "REFERENCE_CONFLICTS",
        "conflicts": [{"conflictType": "KEY_EXISTS", "key": {"elements": ["a", "t"]}, "message": "It is there."}],
    }
    assert "errorDetails" not in msgspec.json.decode(error_response(conflict, scope()).body)


CODES = {
    "UNKNOWN", "SERVICE_UNAVAILABLE", "REFERENCE_NOT_FOUND", "REFERENCE_ALREADY_EXISTS", "CONTENT_NOT_FOUND",
    "REFERENCE_CONFLICT", "BAD_REQUEST", "FORBIDDEN", "TOO_MANY_REQUESTS",
}  # fmt: skip


def test_every_error_has_a_code_that_clients_know() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadwaterError)]
    for kind in kinds:
        answer = error_response(kind("It failed."), scope())
        told = msgspec.json.decode(answer.body)
        assert told["errorCode"] in CODES and told["status"] == answer.status >= 400, kind


def test_the_empty_state_has_the_hash_that_clients_know() -> None:
    assert EMPTY.hex() == "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d"
