"""What our OpenAPI description lacks of those that the Iceberg and Nessie projects publish.

`openapi-missing.txt` lists it all; what is not listed there fails here and is named.
`python -m tests.conformance.test_published_descriptions` writes the list again.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from headwater.dev.jars import fetch_jars
from headwater.service.iceberg.call import PREFIX as ICEBERG_PREFIX
from headwater.service.nessie.call import PREFIX as NESSIE_PREFIX
from headwater.service.root.openapi import openapi
from headwater.service.routes import route_table
from headwater.settings import load_settings
from tests.conformance.described_operations import Operation, Operations, missing, operations_of, read_operations
from tests.support.running.told_lines import TOLD

HERE = Path(__file__).parent
REPORT = HERE / "openapi-missing.txt"
ICEBERG_OPERATIONS = HERE / "iceberg-operations.txt"
"""Method, path, parameters and answers of each operation of Iceberg's `rest-catalog-open-api.yaml`."""
NESSIE_NAMES = {"{branch}": "{ref}", "{from-ref}": "{from}", "{to-ref}": "{to}"}


def test_our_description_lacks_nothing_but_what_is_listed(record_property: Callable[[str, object], None]) -> None:
    found = {api: missing(ours, published) for api, (ours, published) in compared().items()}
    for api, (_, published) in compared().items():
        record_property(
            TOLD, f"OpenAPI of {api}: {len(published)} operations, {len(found[api])} parameters or answers are not ours"
        )
    listed = REPORT.read_text().splitlines()
    assert [line for line in report_lines() if line not in listed] == []


def test_every_published_operation_is_described() -> None:
    assert not [line for line in report_lines() if line.endswith(": the operation")]


def test_a_missing_operation_parameter_or_answer_is_named() -> None:
    both = {"GET /a": Operation(frozenset({"x"}), frozenset({"200"})), "GET /b": Operation(frozenset(), frozenset())}
    ours = {"GET /a": Operation(frozenset({"y"}), frozenset({"404"}))}
    assert missing(ours, both) == ["GET /a: answer 200", "GET /a: parameter x", "GET /b: the operation"]


def report_lines() -> list[str]:
    return [f"{api} {line}" for api, (ours, published) in compared().items() for line in missing(ours, published)]


@cache
def compared() -> dict[str, tuple[Operations, Operations]]:
    """Ours and the published operations of each API."""
    ours = openapi(route_table())
    return {
        "Iceberg": (operations_of(ours, ICEBERG_PREFIX), read_operations(ICEBERG_OPERATIONS.read_text())),
        "Nessie": (operations_of(ours, NESSIE_PREFIX), _nessie()),
    }


def _nessie() -> Operations:
    """As the published jar of its model has it, the second version of the API alone."""
    jars = fetch_jars("nessie-client", Path(load_settings().jar_cache_dir).expanduser())
    with zipfile.ZipFile(next(jars.glob("nessie-model-*.jar"))) as jar:
        return operations_of(json.loads(jar.read("META-INF/openapi/openapi.json")), "/v2", NESSIE_NAMES)


if __name__ == "__main__":
    REPORT.write_text("".join(f"{line}\n" for line in report_lines()))
