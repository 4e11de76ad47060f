"""Creates, lists, updates and drops namespaces of a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.content.content_types import Namespace
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Contradiction, InvalidInput, NamespaceNotEmpty
from headwater.service.iceberg.operations.lake_branch import NAMESPACE, BranchStep, CommitAuthor, LakeBranch, LakeState, shown

PAGE_NAMES = 1_000
PAGE_NAMES_MAX = 10_000
MOVED_MAX = 50_000
"""Keys that one commit moves."""
NAMES_MAX = 1_000_000
"""In an answer to a client that does not ask for pages."""
_UPDATE_PROPERTIES = {"iceberg.operation": "update-namespace-properties"}


class Names(msgspec.Struct, frozen=True):
    keys: list[KeyPath]
    next_token: str | None = None


class PropertyChanges(msgspec.Struct, frozen=True):
    updated: list[str]
    removed: list[str]
    missing: list[str]


def list_names(branch: LakeBranch, namespace: KeyPath, type: str, token: str | None, size: int | None) -> Names:
    """What lies directly below a namespace. Without token and size everything, as one state has it."""
    state = branch.state()
    if namespace:
        state.require_namespace(namespace)
    if size is not None and size < 1:
        raise InvalidInput("A page has at least one name.", field="pageSize", remedy=f"Use 1 to {PAGE_NAMES_MAX}.")
    if token is not None or size is not None:
        keys, following = state.page(namespace, type, token, min(size or PAGE_NAMES, PAGE_NAMES_MAX))
        return Names(keys, following)
    keys, following = state.page(namespace, type, None, PAGE_NAMES_MAX)
    while following is not None and len(keys) < NAMES_MAX:
        more, following = state.page(namespace, type, following, PAGE_NAMES_MAX)
        keys += more
    return Names(keys, following)


def list_namespaces(branch: LakeBranch, parent: KeyPath, token: str | None, size: int | None) -> Names:
    return list_names(branch, parent, NAMESPACE, token, size)


def namespace_properties(branch: LakeBranch, key: KeyPath) -> dict[str, str]:
    found: dict[str, str] = branch.state().require_namespace(key).value.get("properties", {})
    return found


def create_namespace(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, properties: dict[str, str]) -> dict[str, str]:
    def judge(state: LakeState) -> BranchStep:
        state.require_free(key, NAMESPACE)
        put = Put(key, Namespace(properties), must_not_exist=True)
        return BranchStep([put], f"Create namespace {shown(key)}", {"iceberg.operation": "create-namespace"})

    branch.change(caller, [key], judge)
    return properties


def drop_namespace(branch: LakeBranch, caller: CommitAuthor, key: KeyPath) -> None:
    def judge(state: LakeState) -> BranchStep:
        found = state.require_namespace(key)
        if not state.is_empty(key):
            raise NamespaceNotEmpty(f"Namespace is not empty: {shown(key)}", field="namespace")
        delete = Delete(key, expected_content_id=found.content_id)
        return BranchStep([delete], f"Drop namespace {shown(key)}", {"iceberg.operation": "drop-namespace"})

    branch.change(caller, [key], judge)


def move_namespace(branch: LakeBranch, caller: CommitAuthor, source: KeyPath, target: KeyPath) -> None:
    """With all that is below it, as one commit. What somebody puts there meanwhile is a conflict; the move is judged again."""
    if target[: len(source)] == source:
        raise InvalidInput(f"{shown(target)} is the namespace itself, or in it.", field="name", remedy="Name another place.")

    def judge(state: LakeState) -> BranchStep:
        found = state.require_namespace(source)
        state.require_free(target, NAMESPACE, renamed_from=source)
        operations: list[CatalogOperation] = [Rename(source, target, expected_content_id=found.content_id)]
        for one in state.below(source, MOVED_MAX):
            operations.append(Rename(one.key, (*target, *one.key[len(source) :]), expected_content_id=one.content_id))
        message = f"Move namespace {shown(source)} to {shown(target)}"
        return BranchStep(operations, message, {"iceberg.operation": "move-namespace"})

    branch.change(caller, [source, target], judge)


def update_properties(
    branch: LakeBranch, caller: CommitAuthor, key: KeyPath, updates: Mapping[str, str], removals: Sequence[str]
) -> PropertyChanges:
    both = sorted(updates.keys() & set(removals))
    if both:
        raise Contradiction(f"The property {both[0]!r} is both set and removed.", field="removals")

    def judge(state: LakeState) -> BranchStep:
        found = state.require_namespace(key)
        there: dict[str, str] = found.value.get("properties", {})
        kept = {name: value for name, value in there.items() if name not in removals}
        removed = [name for name in dict.fromkeys(removals) if name in there]
        missing = [name for name in dict.fromkeys(removals) if name not in there]
        put = Put(key, Namespace({**kept, **updates}), expected=Namespace(there), expected_content_id=found.content_id)
        answer = PropertyChanges(list(updates), removed, missing)
        return BranchStep([put], f"Update namespace {shown(key)}", _UPDATE_PROPERTIES, answer=answer)

    done = branch.change(caller, [key], judge)
    if isinstance(done.answer, PropertyChanges):
        return done.answer
    return _as_before(done.change.operations[0].before if done.change else None, updates, removals)


def replace_properties(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, wanted: Mapping[str, str]) -> None:
    """Those that are not wanted go, also those that somebody sets meanwhile."""

    def judge(state: LakeState) -> BranchStep:
        found = state.require_namespace(key)
        there = Namespace(found.value.get("properties", {}))
        put = Put(key, Namespace(dict(wanted)), expected=there, expected_content_id=found.content_id)
        return BranchStep([put], f"Update namespace {shown(key)}", _UPDATE_PROPERTIES)

    branch.change(caller, [key], judge)


def _as_before(
    before: dict[str, dict[str, str]] | None, updates: Mapping[str, str], removals: Sequence[str]
) -> PropertyChanges:
    """What the first request of that key was answered."""
    there = (before or {}).get("properties", {})
    names = list(dict.fromkeys(removals))
    return PropertyChanges(list(updates), [n for n in names if n in there], [n for n in names if n not in there])
