"""The message catalogue: complete for every code in every language, and chosen as a caller's languages ask."""

from __future__ import annotations

import string
from pathlib import Path

import pytest

from headwater.schemas.errors import CatalogNotFound, InvalidInput, RequestTooLarge
from headwater.service.errors.languages import best_language
from headwater.service.errors.problems import problem_of
from headwater.service.errors.translations import catalogues, english_catalogue, error_kinds, localize, read_catalogue


@pytest.mark.parametrize("language", catalogues())
def test_every_language_has_words_for_every_code_and_for_no_other(language: str) -> None:
    assert catalogues()[language].keys() == english_catalogue().keys()
    for code, wording in catalogues()[language].items():
        assert wording.title and wording.detail, code
        names = {name for text in (wording.detail, wording.remedy or "") for _, name, _, _ in string.Formatter().parse(text)}
        assert all(name is None or name.isidentifier() for name in names), code


def test_every_error_has_a_code_of_its_own() -> None:
    kinds = list(error_kinds())
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_english_is_the_errors_own_words() -> None:
    error = CatalogNotFound("there is no catalog 'x'.", field="catalog", remedy="Create it.")
    assert localize(error) == localize(error, "fr")
    assert (localize(error).title, localize(error).detail) == ("Catalog not found", "there is no catalog 'x'.")


def test_a_problem_in_german_keeps_code_facts_and_the_exact_sentence() -> None:
    error = RequestTooLarge("the body has 9 bytes.", field="body", remedy="Send at most 5 bytes.", bytes_max=5)
    problem = problem_of(error, language="de")
    assert (problem.code, problem.title) == ("REQUEST_TOO_LARGE", "Anfrage zu groß")
    assert problem.remedy == "Höchstens 5 Bytes senden." and problem.facts == {"bytes_max": 5}
    assert problem.message == "the body has 9 bytes." and problem_of(error).message is None


def test_a_sentence_cannot_reach_into_objects() -> None:
    error = InvalidInput("x", field="{field.__class__}")
    assert localize(error, "de").detail == "So kann „{field.__class__}“ nicht gemeint sein."


@pytest.mark.parametrize(
    ("given", "language"),
    [
        ("de", "de"),
        ("de-CH, en;q=0.5", "de"),
        ("fr, de;q=0.4, en;q=0.8", "en"),
        ("fr;q=0.9, de;q=0.1", "de"),
        ("de;q=0", "en"),
        ("DE-de", "de"),
        ("", "en"),
        (";;;,=,q=x;q=y", "en"),
        ("*", "en"),
    ],
)
def test_the_best_language_is_chosen(given: str, language: str) -> None:
    assert best_language(given, {"en", "de"}) == language


def test_an_operators_own_language_is_read_and_a_broken_one_refused(tmp_path: Path) -> None:
    (tmp_path / "nl.toml").write_text('[NOT_FOUND]\ntitle = "Niet gevonden"\n')
    assert catalogues(str(tmp_path))["nl"]["NOT_FOUND"].title == "Niet gevonden"
    (tmp_path / "bad.toml").write_text("[NOT_FOUND]\nname = 1\n")
    with pytest.raises(InvalidInput, match=r"bad\.toml"):
        read_catalogue(tmp_path / "bad.toml")
