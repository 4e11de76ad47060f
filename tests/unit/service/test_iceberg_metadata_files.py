"""Files that a commit names as metadata: only what is metadata of a table or view is ever read as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.errors import MalformedMetadata
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.storage.files import LocalFiles
from headwater.service.storage.locations import Warehouse


@pytest.mark.parametrize(
    "content",
    [b"PAR1 ann earns 4711 PAR1", b'{"password": "hunter2"}', b'["a"]', b'{"format-version": 2, "location": "file:///x"}'],
    ids=["data", "other JSON", "a list", "half of it"],
)
def test_a_file_that_is_not_metadata_is_refused_and_not_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t" / "data" / "part-0"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    files = MetadataFiles(Warehouse(tmp_path.as_uri()), LocalFiles())
    for _ in range(2):
        with pytest.raises(MalformedMetadata):
            files.load(path.as_uri())
    assert files.kept(path.as_uri()) is None
