"""Every spelling of a location folds to one form; a file that is in use is recognised however it is written."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.producer.content.folding import fold, fold_all, is_indirect, storage_of
from headwater.streaming.files.fingerprints import fingerprint, fingerprints, name_fingerprint
from headwater.streaming.files.marks.manifest_marks import common_folder, marks_of, unpacked

SALT = b"a salt of 16 byt"
PATHS = st.lists(
    st.text(st.characters(exclude_characters="/%", exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5
).map("/".join)


@pytest.mark.parametrize(
    "spelled",
    [
        "s3://bucket/lake/t/Data 1.parquet",
        "s3a://bucket/lake/t/data 1.parquet",
        "s3n://other//lake/./t//data%201.parquet",
        "gs://bucket/lake/t/data%25201.parquet",
        "abfss://container@account.dfs.core.windows.net/lake/t/data 1.parquet",
        "wasbs://container@account.blob.core.windows.net/lake/t/data 1.parquet",
        "file:/lake/t/data 1.parquet",
        "file:///lake/t/data 1.parquet",
        "/lake/t/data 1.parquet",
    ],
)
def test_equivalent_spellings_have_one_fingerprint(spelled: str) -> None:
    assert fold(spelled) == "/lake/t/data 1.parquet"
    assert fingerprint(spelled, SALT) == fingerprint("s3://bucket/lake/t/data 1.parquet", SALT)


@given(
    PATHS, st.sampled_from(["s3://b/", "s3a://b/", "gs://b/", "file:///", "file:/", "/", "abfss://c@a.dfs.core.windows.net/"])
)
def test_scheme_encoding_slashes_case_and_normal_form_do_not_matter(path: str, begin: str) -> None:
    plain = fold(f"s3://bucket/{path}")
    assert fold(begin + path) == plain
    assert fold(begin + quote(path)) == plain
    assert fold(begin + quote(quote(path))) == plain
    assert fold(begin + path.replace("/", "//")) == plain
    assert fold(begin + path.replace("/", "/./")) == plain
    assert fold(begin + unicodedata.normalize("NFD", path)) == plain
    assert fold(begin + unicodedata.normalize("NFC", path)) == plain


@given(st.text(min_size=1))
def test_any_text_has_a_fingerprint_of_63_bits(text: str) -> None:
    assert 0 <= fingerprint(text, SALT) < 2**63
    assert list(fingerprints([text], SALT)) == [fingerprint(text, SALT)]


LOCATIONS = st.builds(
    str.__add__,
    st.sampled_from(["s3://b/", "S3A://b/", "file:///", "file:/", "/", "abfss://c@a.dfs.core.windows.net/", ""]),
    st.text(st.sampled_from("aB/.%2F:\n é\udc80"), max_size=12),
)


@given(st.one_of(st.lists(LOCATIONS), st.lists(st.text(st.sampled_from("aB/.:"), max_size=9).map("s3://b/".__add__))))
def test_many_locations_are_folded_as_one_by_one(locations: list[str]) -> None:
    folded = [fold(location) for location in locations]
    assert fold_all(locations) == [one.encode("utf-8", "surrogatepass") for one in folded]
    assert fingerprints(locations, SALT).tolist() == [fingerprint(location, SALT) for location in locations]
    marks = marks_of(locations, SALT)
    assert unpacked(marks.ids).tolist() == sorted({fingerprint(location, SALT) for location in locations})
    assert unpacked(marks.names).tolist() == sorted({name_fingerprint(location, SALT) for location in locations})
    places = {
        "" if is_indirect(one) else f"{storage_of(location)}{one.rpartition('/')[0]}/"
        for location, one in zip(locations, folded, strict=True)
    }
    assert marks.place == common_folder(places)


def test_a_name_alone_is_not_mistaken_for_a_path() -> None:
    assert name_fingerprint("s3://b/x/t.parquet", SALT) == name_fingerprint("file:///mnt/T.parquet", SALT)
    assert name_fingerprint("s3://b/t.parquet", SALT) != fingerprint("s3://b/t.parquet", SALT)


def test_neighbours_differ() -> None:
    assert fold("s3://b/t1/x") != fold("s3://b/t10/x")
    assert fold("s3://b/t/a+b") != fold("s3://b/t/a b")


def test_the_salt_changes_fingerprints() -> None:
    assert fingerprint("s3://b/x", SALT) != fingerprint("s3://b/x", b"another salt 16b")
