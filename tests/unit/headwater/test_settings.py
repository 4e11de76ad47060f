"""Settings: one list, one table in the docs, and the order flag, variable, file, default."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.operation.settings import settings_markdown
from headwater.persistence.store import StoreOptions
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings, load_settings
from headwater.wiring.stores import shown_url, store_options

DOCS = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_docs_list_exactly_the_settings_with_their_defaults() -> None:
    table = [line for line in DOCS.read_text().splitlines() if line.startswith("|")]
    assert table == settings_markdown().splitlines(), "run `headwater settings --markdown` and put its table into the docs"


def test_every_setting_has_a_line_of_the_table() -> None:
    assert len(settings_markdown().splitlines()) == len(Settings.__struct_fields__) + 2


def test_the_defaults_of_a_store_are_those_of_the_settings() -> None:
    assert store_options(Settings()) == StoreOptions()


def test_settings_reach_the_store() -> None:
    changed = load_settings({"commit_attempts_max": "3", "commit_retry_seconds": "2.5", "commit_decide_seconds": 7}, {})
    retries = store_options(changed).retries
    assert (retries.attempts_max, retries.seconds_max, retries.decide_seconds_max) == (3, 2.5, 7.0)
    waits = store_options(load_settings({"commit_first_wait_seconds": "0.01", "commit_longest_wait_seconds": 2}, {})).retries
    assert (waits.delay_seconds_first, waits.delay_seconds_max) == (0.01, 2.0)


def test_a_flag_comes_before_a_variable_before_the_file_before_the_default(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text('store = "memory://file"\ncache_bytes = 1\nnode_lease_seconds = 11\n')
    environ = {"HEADWATER_STORE": "memory://variable", "HEADWATER_CACHE_BYTES": "2", "HEADWATER_CONFIG": str(file)}
    settings = load_settings({"store": "memory://flag"}, environ)
    assert (settings.store, settings.cache_bytes, settings.node_lease_seconds) == ("memory://flag", 2, 11)
    assert settings.durability == "warn"


@pytest.mark.parametrize(
    "flags",
    [
        {"unknown": 1},
        {"cache_bytes": "-1"},
        {"cache_bytes": "many"},
        {"durability": "perhaps"},
        {"commit_retry_seconds": 0},
        {"commit_first_wait_seconds": 0},
    ],
)
def test_an_invalid_setting_is_refused_by_its_name(flags: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_settings(flags, {})
    (name,) = flags
    assert refused.value.field == ("settings" if name == "unknown" else name)


def test_a_setting_that_takes_a_few_values_names_them() -> None:
    with pytest.raises(InvalidInput) as refused:
        load_settings({"maintain_by_stream": "perhaps"}, {})
    assert "'auto', 'always', 'never'" in refused.value.remedy


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@h:5/db?x=1", "postgresql://me:***@h:5/db?x=1"),
        ("postgresql://me@h/db", "postgresql://me@h/db"),
        ("cassandra://u:p@ss@h/k", "cassandra://u:***@h/k"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown
