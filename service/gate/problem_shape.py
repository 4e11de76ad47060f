"""Errors of the feed, of management and of the root, as problem+json in the caller's language."""

from __future__ import annotations

from typing import Any

from headwater.schemas.errors import HeadwaterError, MethodNotAllowed
from headwater.service.errors.languages import language_of
from headwater.service.errors.problems import internal_problem, problem_body, problem_headers, problem_of
from headwater.service.gate.request import Request
from headwater.service.http.responses import Response


class ProblemShape:
    media = "application/problem+json"
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}

    def error(self, error: HeadwaterError, request: Request) -> Response:
        folder = request.service.config.messages_dir
        language = language_of(request.scope, folder)
        problem = problem_of(error, request_id=request.id.decode(), realm=request.realm, language=language, messages_dir=folder)
        headers = problem_headers(problem, language)
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", str(error.facts.get("allowed", "")).encode()))
        return Response(problem.status, headers, problem_body(problem))

    def internal(self, request: Request) -> Response:
        problem = internal_problem(request.id.decode())
        return Response(500, problem_headers(problem), problem_body(problem))


PROBLEMS = ProblemShape()
