"""Nessie's own description of its API against the server: whatever fits it or nearly does, no 500, no unknown answer."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis.errors import Unsatisfiable

from headwater.dev.jars import fetch_jars
from headwater.service.nessie.call import PREFIX
from headwater.service.nessie.routes import NESSIE
from headwater.settings import load_settings
from tests.support.faults.fuzzing import asking
from tests.support.fixtures.feed_branch import FeedBranch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.core.errors import InvalidSchema

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
EXAMPLES = 60 if SOAK else 3
TOLD_BESIDE = {400, 404, 409}
"""What Nessie answers too, and describes of some paths only."""


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    """As the published jar of its model has it, the second version of the API alone."""
    jars = fetch_jars("nessie-client", Path(load_settings().jar_cache_dir))
    with zipfile.ZipFile(next(jars.glob("nessie-model-*.jar"))) as jar:
        found: dict[str, Any] = json.loads(jar.read("META-INF/openapi/openapi.json"))
    paths = {path.removeprefix("/v2"): item for path, item in found["paths"].items() if path.startswith("/v2/")}
    return {**found, "paths": paths, "servers": []}


def test_every_operation_of_the_description_has_a_route(description: dict[str, Any]) -> None:
    names = {"{branch}": "{ref}", "{from-ref}": "{from}", "{to-ref}": "{to}"}
    described = set()
    for path, item in description["paths"].items():
        for theirs, ours in names.items():
            path = path.replace(theirs, ours)
        described |= {(method.upper(), path) for method in item if method in ("get", "post", "put", "delete")}
    assert described == {(route.method, route.path.removeprefix(PREFIX)) for route in NESSIE.routes}


def test_nothing_that_fits_or_nearly_fits_is_a_500_or_an_unknown_answer(
    description: dict[str, Any], branch: FeedBranch
) -> None:
    branch.commit("t")
    statuses: list[int] = []
    for result in schemathesis.openapi.from_dict(description).get_all_operations():
        operation = result.ok() if not isinstance(result, InvalidSchema) else None
        assert operation is not None
        responses = description["paths"][operation.path][operation.method]["responses"]
        documented = {int(status) for status in responses if status.isdigit()}
        if 204 in documented:
            documented.add(200)  # the answer has a body, which a 204 cannot have
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            with contextlib.suppress(Unsatisfiable):  # an operation without parameters has nothing that does not fit
                statuses += asked(operation, mode, documented, branch)
    assert len(statuses) > 60 and {200, 400, 404} <= set(statuses), statuses


def asked(operation: Any, mode: Any, documented: set[int], branch: FeedBranch) -> list[int]:
    """Two of three questions are about a branch that is there."""
    statuses: list[int] = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @asking(EXAMPLES)
    def ask(case: Any) -> None:
        for name in set(case.path_parameters or {}) & {"ref", "branch", "from-ref", "to-ref"}:
            if len(statuses) % 3:
                case.path_parameters[name] = branch.name
        answer = case.call(base_url=f"{branch.server.url}/api/v2", timeout=30)
        statuses.append(answer.status_code)
        told = f"{case.as_curl_command()}\n{answer.status_code} {answer.text}"
        assert answer.status_code in documented | TOLD_BESIDE, told
        if answer.status_code >= 400:
            assert {"status", "reason", "message", "errorCode"} <= set(answer.json()), told

    ask()
    return statuses
