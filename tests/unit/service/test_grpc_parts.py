"""The parts of the gRPC port that need no server: errors, masks, pages, the table of methods, Changes as messages."""

from __future__ import annotations

import grpc
import msgspec
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import error_details_pb2

from headwater.schemas import errors
from headwater.schemas.change import Base, Change, Kind, Op, Operation, Source
from headwater.schemas.errors import CommitConflict, InvalidInput, NotAuthenticated
from headwater.schemas.protobuf.protobuf_codec import to_protobuf
from headwater.schemas.rpc import common_pb2, feed_pb2
from headwater.schemas.rpc.services import all_methods
from headwater.service.errors.translations import error_kinds
from headwater.service.grpc.call_context import call_context, call_key
from headwater.service.grpc.grpc_errors import mc_code, status_code, status_of
from headwater.service.grpc.grpc_server import checked_rows
from headwater.service.grpc.messages.change_messages import change_message
from headwater.service.grpc.messages.encoded_changes import EncodedChanges
from headwater.service.grpc.messages.frames import FRAME_BYTES, ChangeFrames
from headwater.service.grpc.messages.masks import masked
from headwater.service.grpc.messages.message_fields import canonical
from headwater.service.grpc.rpc_caller import refuse_principal
from headwater.service.grpc.rpc_table import RPCS
from headwater.service.operations.encoded_entries import EncodedEntry
from headwater.service.operations.feed_pages import Page

BYTES_MAX = 10_000_000
CONTEXT = call_context("io.headwater.Some/Thing", [("x-correlation-id", "c-1")], "ipv4:127.0.0.1:5", None, "r-1")


def test_every_method_has_a_row_and_a_method_without_one_stops_the_server() -> None:
    assert {method.name for method in checked_rows(RPCS)} == {method.name for method in all_methods()}
    name = next(iter(RPCS))
    with pytest.raises(LookupError, match=name):
        checked_rows({key: row for key, row in RPCS.items() if key != name})
    with pytest.raises(LookupError, match="no proto"):
        checked_rows(RPCS | {"io.headwater.Some/Thing": RPCS[name]})


def test_every_mutation_takes_a_key_and_runs_once_under_it() -> None:
    for method in all_methods():
        takes_key = "idempotency" in method.request.DESCRIPTOR.fields_by_name
        if method.name.endswith("/Commit"):  # its key is looked for in the log
            assert takes_key
        else:
            assert takes_key == RPCS[method.name].is_keyed, method.name


@pytest.mark.parametrize("kind", sorted(error_kinds(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_a_code(kind: type[errors.HeadwaterError]) -> None:
    error = kind("something is wrong.", field="field")
    assert isinstance(status_code(error), grpc.StatusCode)
    assert (mc_code(error) == "MC_INTERNAL") == (error.grpc_status in ("INTERNAL", "UNKNOWN", "DATA_LOSS")) or isinstance(
        error, (errors.StoreRefused, errors.PublisherStopped, errors.MissingDependency)
    )


def test_details_of_an_error_name_code_field_request_and_violations() -> None:
    status = status_of(InvalidInput("it is empty.", field="name", remedy="Name it."), CONTEXT)
    found = {detail.type_url.rpartition("/")[2]: detail for detail in status.details}
    info, bad, own = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), common_pb2.Error()
    assert found["google.rpc.ErrorInfo"].Unpack(info)
    assert found["google.rpc.BadRequest"].Unpack(bad)
    assert found["io.headwater.common.v1.Error"].Unpack(own)
    assert (info.reason, info.domain) == ("INVALID_INPUT", "headwater")
    assert [one.field for one in bad.field_violations] == ["name"]
    assert (own.code, own.correlation_id, own.remedy) == ("MC_INVALID_ARGUMENT", "c-1", "Name it.")


def test_trailers_stay_small_however_many_conflicts_there_are() -> None:
    conflicts: list[errors.Fact] = [{"kind": "KEY_EXISTS", "key": ["x" * 900], "message": "m" * 900} for _ in range(500)]
    status = status_of(CommitConflict("y" * 5_000, conflicts=conflicts, other="z" * 9_000), CONTEXT)
    assert len(status.message) <= 512
    assert status.ByteSize() * 4 / 3 <= 6 * 1024
    assert any(detail.type_url.endswith("ErrorInfo") for detail in status.details)


@pytest.mark.parametrize("paths", [[], ["unknown"], ["name.first"], ["name", "name.first"]])
def test_an_invalid_mask_is_refused(paths: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        masked(FieldMask(paths=paths), ("name", "properties"))
    assert refused.value.field == "update_mask"


def test_created_names_are_trimmed_collapsed_and_composed() -> None:
    assert canonical("  a \t b ", "name") == "a b"
    assert canonical("e\u0301", "name") == "\u00e9"
    assert canonical("\ufb01", "name") == "\ufb01"  # NFKC would merge it with `fi`
    with pytest.raises(InvalidInput):
        canonical(" \n", "name")


def test_two_different_keys_are_refused_and_a_principal_in_metadata_proves_nothing() -> None:
    metadata = [("idempotency-key", "a"), ("x-principal-bin", b"\x0a")]
    context = call_context("m", metadata, "ipv6:%5B::1%5D:77", None, "r")
    assert call_key(context, "") == call_key(context, "a") == "a"
    with pytest.raises(InvalidInput):
        call_key(context, "b")
    with pytest.raises(NotAuthenticated):
        refuse_principal(context)
    assert context.scope["client"] == ("::1", 77)


def plain_change(seq: int, message: str = "") -> Change:
    return Change(
        realm="r",
        pointer="cat/1/heads/main",
        seq=seq,
        entry_id=f"{seq:02x}" * 32,
        kind=Kind.COMMIT,
        commit_id="c",
        parent_id="p",
        head_before="h",
        time="2026-01-01T00:00:00Z",
        author="ada",
        message=message,
        headers={},
        request_id="q",
        operations=(),
        objects_added=(),
        objects_released=(),
        base=None,
        source=None,
    )


def test_a_change_is_the_same_bytes_as_in_the_published_encoding() -> None:
    operation = Operation(
        op=Op.RENAME, key=("a", "b"), content_id="c", type="T", before={"z": 1, "a": None}, after=None, from_key=("a", "x")
    )
    change = Change(
        realm="r",
        pointer="cat/1/heads/main",
        seq=7,
        entry_id="e",
        kind=Kind.MERGE,
        commit_id="c",
        parent_id="p",
        head_before="h",
        time="2026-01-01T00:00:00Z",
        author="ada",
        message="grüße",
        headers={"b": "2", "a": "1"},
        request_id="q",
        operations=(operation,),
        objects_added=("1", "2"),
        objects_released=(),
        base=Base(pointer="x", seq=0, commit_id="y"),
        source=Source(pointer="s", commit_id="t"),
    )
    assert change_message(change).SerializeToString(deterministic=True) == to_protobuf(change)


def test_a_joined_frame_equals_the_message_and_its_changes_are_encoded_once() -> None:
    """Lengths of one, two and three bytes, and a Change that is named, for it is larger than a frame."""
    changes = [plain_change(seq, message="x" * size) for seq, size in enumerate((0, 200, 40_000, FRAME_BYTES), 1)]
    entries = [EncodedEntry(one.seq, bytes([one.seq]) * 32, b"", 0, msgspec.json.encode(one)) for one in changes]
    page, frames = Page(entries=entries, parts={}), ChangeFrames(BYTES_MAX)
    expected = feed_pb2.Frame(cursor="c", changes=[change_message(one) for one in changes[:3]])
    expected.large.add(pointer="cat/1/heads/main", seq=4, entry_id="04" * 32, bytes=len(entries[3].json))
    for _ in range(2):
        frame = frames.frame(page, "c")
        assert frame == expected and frame.SerializeToString() == expected.SerializeToString()
    assert frames.changes.made == 3


def test_cached_changes_stay_within_their_memory_limit() -> None:
    kept = EncodedChanges(bytes_max=10_000)
    for seq in range(1, 200):
        change = plain_change(seq)
        assert feed_pb2.Frame.FromString(kept.field(msgspec.json.encode(change))) == feed_pb2.Frame(
            changes=[change_message(change)]
        )
        assert kept.bytes_used <= 10_000
    before = kept.made
    kept.field(msgspec.json.encode(plain_change(199)))
    kept.field(msgspec.json.encode(plain_change(1)))
    assert kept.made == before + 1
