"""A Delta table's files are all held in memory while a scan of it is planned, so there is a limit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from headwater.schemas.errors import Unsupported
from headwater.streaming.files.formats.delta_states import FILES_MAX, DeltaState, delta_state
from headwater.streaming.files.formats.delta_versions import delta_versions
from headwater.streaming.files.stores.storages import Storages

METADATA = r'{"metaData":{"schemaString":"{\"type\":\"struct\",\"fields\":[]}"}}'
ONE_MORE = ['{"add":{"path":"one-more"}}']


def state(folder: Path, *commits: Iterable[str]) -> DeltaState:
    log = folder / "t" / "_delta_log"
    log.mkdir(parents=True)
    for number, lines in enumerate(commits):
        (log / f"{number:020}.json").write_text("\n".join(lines))
    root, storages = f"file://{folder}/t", Storages()
    versions = delta_versions(storages, root)
    assert versions is not None
    return delta_state(storages, root, versions, versions.newest)


def full() -> list[str]:
    return [METADATA, *(f'{{"add":{{"path":"{number}"}}}}' for number in range(FILES_MAX))]


def test_a_table_with_too_many_files_is_refused(tmp_path: Path) -> None:
    assert FILES_MAX <= 200_000
    with pytest.raises(Unsupported, match=f"more than {FILES_MAX} files") as refused:
        state(tmp_path, full(), ONE_MORE)
    assert (refused.value.field, refused.value.grpc_status) == ("index", "UNIMPLEMENTED")
    assert "OPTIMIZE" in refused.value.remedy


def test_files_that_were_removed_do_not_count(tmp_path: Path) -> None:
    found = state(tmp_path, full(), ['{"remove":{"path":"0"}}'], ONE_MORE)
    assert len(found.adds) == FILES_MAX and found.adds[-1]["path"] == "one-more"
