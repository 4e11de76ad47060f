"""Whatever fits the description of the Iceberg door, or nearly does: no 500, no unknown answer, and refusals in its shape."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from tests.e2e.conftest import FeedBranch
from tests.iceberg_lake import IcebergLake, table_body, view_body
from tests.iceberg_openapi import EVERYWHERE, NO_BODY, description

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.core.errors import InvalidSchema

EXAMPLES = 60 if os.environ.get("HEADWATER_SOAK") == "1" else 3
ALLOWED = {200, 204, 304, *(int(status) for status in EVERYWHERE)}


def test_nothing_that_fits_or_nearly_fits_is_a_500_or_an_unknown_answer(lake: IcebergLake, branch: FeedBranch) -> None:
    lake.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
    lake.http.post("namespaces/db/tables", json=table_body("t")).raise_for_status()
    lake.http.post("namespaces/db/views", json=view_body("v")).raise_for_status()
    real = {"prefix": lake.warehouse, "namespace": "db", "table": "t", "view": "v"}
    asked, statuses = 0, set()
    for result in schemathesis.openapi.from_dict(description()).get_all_operations():
        operation = result.ok() if not isinstance(result, InvalidSchema) else None
        assert operation is not None
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def ask(case: Any) -> None:
                nonlocal asked
                for name in set(case.path_parameters or {}) & set(real):
                    if name == "prefix" or asked % 3:  # most of what is asked shall get as far as a table that is there
                        case.path_parameters[name] = real[name]
                answer = case.call(base_url=lake.url, timeout=30)
                asked += 1
                statuses.add(answer.status_code)
                assert answer.status_code in ALLOWED, f"{case.as_curl_command()}\n{answer.status_code} {answer.text}"
                if answer.status_code >= 400 and case.method.upper() not in NO_BODY and "oauth" not in case.path:
                    error = answer.json()["error"]
                    assert (error["code"], bool(error["type"]), bool(error["message"])) == (answer.status_code, True, True)

            with contextlib.suppress(Unsatisfiable):  # an operation without parameters has nothing that does not fit
                ask()
    assert asked > 120 and {200, 204, 400, 404, 406} <= statuses, (asked, statuses)
    assert branch.handle.info().seq > 0
