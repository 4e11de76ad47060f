"""The parameters of management routes: what is parsed and what the OpenAPI shows."""

from __future__ import annotations

from headwater.service.http.parameters import Parameter

_TOKEN = Parameter(name="token", length_max=10_000, description="`next_token` of the previous page.")
_LIMIT = Parameter(name="limit", type="integer", minimum=1, maximum=1_000, default=100, description="How many at most.")
_BRANCH = Parameter(name="branch", length_max=256, description="The default branch, if left out.")


def _flag(name: str, default: str, description: str) -> Parameter:
    return Parameter(name=name, choices=("true", "false"), default=default, description=description)


PAGE = (_TOKEN, _LIMIT)
DELETE_CATALOG = (
    _flag("require_empty", "true", "Refuse while something is inside; the default."),
    _flag("purge", "false", "Its history need not be kept either: the next maintenance may remove it."),
)
NAMESPACES = (
    _BRANCH,
    Parameter(name="parent", description="List below this path; levels separated by %1F."),
    _flag("recursive", "false", "All below, not just the next level."),
    Parameter(name="name_prefix", description="Only those whose name, at the next level, begins with this."),
    _TOKEN,
    _LIMIT,
)
ON_BRANCH = (_BRANCH,)
DELETE_NAMESPACE = (_BRANCH, _flag("require_empty", "true", "Refuse while something is inside; the default."))
REFERENCES = (
    Parameter(name="type", choices=("branch", "tag"), description="Only these."),
    _flag("deleted", "false", "Those that are gone too: their logs can still be read."),
    _TOKEN,
    _LIMIT,
)
DELETE_REFERENCE = (
    Parameter(name="author", length_max=512, description="Taken only where no token is asked for; else it is the caller."),
    Parameter(name="message", length_max=16_384, description="Why."),
)
DIFF = (
    Parameter(name="before", required=True, description="A branch, tag or commit, e.g. `main`, `main~2` or a commit id."),
    Parameter(name="after", required=True, description="Another one."),
    _TOKEN,
    _LIMIT,
)
GRANT_PATH = (
    Parameter(name="path", description="At and below this path; levels separated by %1F. The whole catalog without."),
)
DELETE_POLICY = (_flag("detach_all", "false", "Its mappings go too."),)
TARGET = (
    Parameter(name="catalog", length_max=256, description="Name of a catalog; the whole realm without."),
    Parameter(name="path", description="What is at this path of it; levels separated by %1F."),
)
