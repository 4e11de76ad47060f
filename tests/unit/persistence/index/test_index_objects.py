"""Stripes and directories as rows: compact, exact, and loud when their columns contradict themselves."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.index import IndexRows, table_key
from headwater.persistence.index import DIRECTORY, STRIPE, Directory, IndexValue, Stripe
from headwater.persistence.index.objects import DELETED, StripeRef, make_directory, make_stripe, pack_value, unpack_value
from headwater.persistence.objects import codec
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life
from headwater.schemas.errors import TornObject
from tests.support.models.index_cases import keys, values

refs = st.builds(
    StripeRef, keys, st.integers(1, 2**63 - 1), st.integers(1, 9_999), st.integers(0, 9_999), st.integers(1, 99_999)
)


@settings(deadline=None)
@given(st.dictionaries(keys, st.none() | values, min_size=1))
def test_a_stripe_reads_back_from_its_row(elements: dict[bytes, IndexValue | None]) -> None:
    in_order = sorted(elements)
    packed = [pack_value(elements[key]) for key in in_order]
    stripe = codec.decode(STRIPE, [codec.encode(STRIPE, 5, make_stripe(in_order, packed), 1)])
    assert (stripe.keys, stripe.values) == (in_order, packed)
    assert stripe.deleted == list(elements.values()).count(None)
    assert [None if value == DELETED else unpack_value(value) for value in stripe.values] == [elements[key] for key in in_order]


@settings(deadline=None)
@given(st.lists(refs, min_size=1))
def test_a_directory_reads_back_from_its_row(some: list[StripeRef]) -> None:
    directory = codec.decode(DIRECTORY, [codec.encode(DIRECTORY, 5, make_directory(some), 1)])
    assert directory.refs == some
    assert directory.firsts == [ref.first for ref in some]


def test_an_element_takes_at_most_fifteen_bytes() -> None:
    store = IndexRows()
    some = sorted(table_key(number) for number in range(0, 60_000, 30))
    stripe = make_stripe(some, [pack_value(IndexValue(store.new_id(), number % 3)) for number in range(len(some))])
    assert len(codec.encode(STRIPE, 5, stripe, 1).payload) / len(some) <= 15


def test_columns_that_do_not_match_their_count_are_torn() -> None:
    stripe = make_stripe([b"a", b"b"], [pack_value(IndexValue(1, 1))] * 2)
    for count in (1, 3):
        torn = msgspec.structs.replace(stripe, count=count)
        with pytest.raises(TornObject):
            _ = torn.keys
        with pytest.raises(TornObject):
            _ = torn.values
    with pytest.raises(TornObject):
        _ = msgspec.structs.replace(stripe, key_column=b"no deflate").keys


def test_both_types_are_registered_as_logged() -> None:
    for object_type, struct in ((STRIPE, Stripe), (DIRECTORY, Directory)):
        assert OBJECT_TYPES.find(object_type.name) is object_type
        assert (object_type.struct, object_type.life) == (struct, Life.LOGGED)


def test_caches_count_the_memory_of_decoded_objects() -> None:
    some = [table_key(number) for number in range(1_000)]
    stripe = make_stripe(some, [pack_value(IndexValue(1, 1))] * 1_000)
    assert stripe.memory_bytes > 100 * 1_000
    assert make_directory([StripeRef(key, 1, 1, 0, 1) for key in some]).memory_bytes > 100 * 1_000
