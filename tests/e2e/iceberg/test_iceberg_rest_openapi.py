"""Whatever fits the description of the Iceberg API, or nearly does: no 500, no unknown answer, and refusals in its shape."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

from hypothesis import given
from hypothesis.errors import Unsatisfiable

from tests.support.faults.fuzzing import asking
from tests.support.fixtures.iceberg_lake import IcebergLake, table_body, view_body
from tests.support.fixtures.iceberg_openapi import NO_BODY, description

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.core.errors import InvalidSchema

EXAMPLES = 60 if os.environ.get("HEADWATER_SOAK") == "1" else 1
TOLD_BESIDE = {400, 404, 406, 413, 422}
"""What the specification leaves unsaid of some operations: malformed or unknown names, what is refused,
too large a body, an Idempotency-Key of another request."""


class Asking:
    """What was asked, and how it was answered."""

    def __init__(self, lake: IcebergLake) -> None:
        self._lake = lake
        self._real = {"prefix": lake.warehouse, "namespace": "db", "table": "t", "view": "v"}
        self.asked = 0
        self.statuses: set[int] = set()

    def ask(self, operation: Any, mode: Any) -> None:
        described = operation.definition.raw["responses"]
        documented = {int(status) for status in described if str(status).isdigit()} | TOLD_BESIDE

        @given(case=operation.as_strategy(generation_mode=mode))
        @asking(EXAMPLES)
        def ask(case: Any) -> None:
            self._check(case, documented)

        with contextlib.suppress(Unsatisfiable):  # an operation without parameters has nothing that does not fit
            ask()

    def _check(self, case: Any, documented: set[int]) -> None:
        for name in set(case.path_parameters or {}) & set(self._real):
            if name == "prefix" or self.asked % 3:  # most of what is asked shall get as far as a table that is there
                case.path_parameters[name] = self._real[name]
        answer = case.call(base_url=self._lake.url, timeout=30)
        self.asked += 1
        self.statuses.add(answer.status_code)
        assert answer.status_code in documented, f"{case.as_curl_command()}\n{answer.status_code} {answer.text}"
        if answer.status_code >= 400 and case.method.upper() not in NO_BODY and "oauth" not in case.path:
            error = answer.json()["error"]
            assert (error["code"], bool(error["type"]), bool(error["message"])) == (answer.status_code, True, True)


def test_nothing_that_fits_or_nearly_fits_is_a_500_or_an_unknown_answer(lake: IcebergLake) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
    lake.http.post("namespaces/db/tables", json=table_body("t")).raise_for_status()
    lake.http.post("namespaces/db/views", json=view_body("v")).raise_for_status()
    asking = Asking(lake)
    for result in schemathesis.openapi.from_dict(description()).get_all_operations():
        assert not isinstance(result, InvalidSchema)
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            asking.ask(result.ok(), mode)
    assert asking.asked > 50 and {200, 204, 400, 404, 406} <= asking.statuses, (asking.asked, asking.statuses)
