"""`headwater audit`: proves that the history of pointers is complete, or names the entry that is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TypeVar

import rich_click as click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from headwater.cli.feed import audit_states
from headwater.cli.feed.audit_sources import audited, verify_kafka
from headwater.cli.feed.feed_sources import Pointers
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import in_realm, key_text
from headwater.consumers.audit.files import read_changes, write_changes
from headwater.consumers.audit.replay import History, Mismatch, mismatches, replayed_state
from headwater.consumers.audit.verify import Verification, verify
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

T = TypeVar("T")

EXIT_NOT_WHOLE = 1
"""The audit ran and found something; 2 is for an audit that could not run."""

pointers = click.option("--pointer", "named", multiple=True, metavar="NAME", help="Only this pointer, e.g. cat/1/heads/main.")
pointer = click.option("--pointer", metavar="NAME", help="The pointer, e.g. cat/1/heads/main, instead of a branch.")
catalog = click.option("--catalog", metavar="NAME", help="The catalog of the branch. Default: lake.")
branch = click.option("--branch", metavar="NAME", help="The branch. Default: the catalog's default branch.")
from_file = click.option("--file", metavar="FILE", help="Verify an exported file instead of the store.")
from_kafka = click.option(
    "--kafka", metavar="BOOTSTRAP", help="Verify Kafka instead of the store; --server supplies large Changes."
)


@click.group()
def command() -> None:
    """Verify, replay, compare and export history; nothing is changed."""


@command.command("verify")
@pointers
@catalog
@branch
@from_file
@from_kafka
@in_realm
@as_json
@click.pass_obj
def verify_command(
    settings: Settings,
    named: tuple[str, ...],
    catalog: str | None,
    branch: str | None,
    file: str | None,
    kafka: str | None,
    realm: str,
    json_output: bool,
) -> None:
    """Recompute the hash chain of every entry; a single flipped bit is found and reported, with exit code 1.

    All pointers of the realm, deleted branches and tags too, unless a pointer, a catalog or a branch is named.

    `--realm ::system::` verifies the log of the realms themselves.
    """
    if file is not None and (catalog or branch):
        raise InvalidInput("a file knows pointers alone.", field="--branch", remedy="Name a --pointer.")
    wanted = Pointers(named, catalog, branch)
    if file is not None:
        found = list(_verify_file(Path(file), named))
    elif kafka is not None:
        found = verify_kafka(settings, kafka, realm, *wanted.if_any(settings, realm))
    else:
        with audited(settings, realm, wanted, all_if_none=True) as (history, chosen):
            found = [_verify_pointer(history, pointer) for pointer in chosen]
    if json_output:
        print_json({"pointers": found})
    else:
        rows = [(one.pointer, one.entries, one.first_seq, one.last_seq, _outcome(one)) for one in found]
        print_table(["pointer", "entries", "from", "to", "chain"], rows)
    if not all(one.is_whole for one in found):
        sys.exit(EXIT_NOT_WHOLE)


@command.command()
@pointer
@catalog
@branch
@click.option("--at", "--to", "to", default="latest", show_default=True, help="A commit id, seq, time or latest.")
@in_realm
@as_json
@click.pass_obj
def replay(
    settings: Settings, pointer: str | None, catalog: str | None, branch: str | None, to: str, realm: str, json_output: bool
) -> None:
    """Rebuild a state from the feed alone and compare it with the stored one. Exit code 1 if they differ."""
    with audited(settings, realm, Pointers((pointer,) if pointer else (), catalog, branch)) as (history, chosen):
        (pointer,) = chosen
        seq = history.position(pointer, to)
        replayed = replayed_state(history, pointer, seq)
        found = list(mismatches(history.stored_state(pointer, seq), replayed))
    if json_output:
        print_json({"pointer": pointer, "seq": seq, "keys": len(replayed), "mismatches": found})
    else:
        echo(f"{pointer} at seq {seq}: {len(replayed)} keys replayed, {len(found)} differ from the stored state")
        _print_mismatches(found)
    if found:
        sys.exit(EXIT_NOT_WHOLE)


@command.command()
@click.argument("before")
@click.argument("after")
@pointer
@catalog
@branch
@in_realm
@as_json
@click.pass_obj
def diff(
    settings: Settings,
    before: str,
    after: str,
    pointer: str | None,
    catalog: str | None,
    branch: str | None,
    realm: str,
    json_output: bool,
) -> None:
    """Show what changed between two points of a history, each replayed from the feed."""
    with audited(settings, realm, Pointers((pointer,) if pointer else (), catalog, branch)) as (history, chosen):
        (pointer,) = chosen
        old, new = (replayed_state(history, pointer, history.position(pointer, at)) for at in (before, after))
    found = list(mismatches(old, new))
    if json_output:
        print_json({"pointer": pointer, "changed": [{"key": it.key, "before": it.expected, "after": it.found} for it in found]})
    else:
        _print_mismatches(found)


@command.command()
@click.argument("file")
@pointers
@catalog
@branch
@in_realm
@as_json
@click.pass_obj
def export(
    settings: Settings,
    file: str,
    named: tuple[str, ...],
    catalog: str | None,
    branch: str | None,
    realm: str,
    json_output: bool,
) -> None:
    """Write the history to FILE (.jsonl or .parquet); `audit verify --file FILE` verifies it anywhere."""
    with audited(settings, realm, Pointers(named, catalog, branch), all_if_none=True) as (history, chosen):
        count = write_changes(Path(file), _with_progress(_everything(history, chosen), "exported"))
    if json_output:
        print_json({"file": file, "pointers": chosen, "changes": count})
    else:
        echo(f"{count} changes of {len(chosen)} pointers are in {file}")


command.add_command(audit_states.states_command)


def _everything(history: History, pointers: Sequence[str]) -> Iterator[Change]:
    for pointer in pointers:
        oldest, newest = history.range(pointer)
        yield from history.changes(pointer, oldest - 1, newest)


def _verify_pointer(history: History, pointer: str) -> Verification:
    oldest, newest = history.range(pointer)
    changes = _with_progress(history.changes(pointer, oldest - 1, newest), pointer)
    return verify(pointer, changes, after_seq=oldest - 1, anchor=history.anchor(pointer))


def _verify_file(file: Path, wanted: tuple[str, ...]) -> Iterator[Verification]:
    seen: set[str] = set()
    for pointer, group in groupby(read_changes(file), key=lambda change: change.pointer):
        if pointer in seen:
            raise InvalidInput(f"{pointer!r} occurs in two places.", field="FILE", remedy="Export it again.")
        seen.add(pointer)
        changes = iter(group)
        first = next(changes)
        if not wanted or pointer in wanted:
            yield verify(pointer, chain([first], changes), after_seq=first.seq - 1)


def _outcome(one: Verification) -> str:
    if one.flaw is not None:
        return f"BROKEN at seq {one.flaw.seq}: it {one.flaw.reason}"
    return "whole" if one.anchored else "whole, from the second entry on: history was cut and its anchor is not known"


def _print_mismatches(found: list[Mismatch]) -> None:
    if found:
        rows = [(key_text(it.key), it.expected and it.expected.value, it.found and it.found.value) for it in found]
        print_table(["key", "before", "after"], rows)


def _with_progress(changes: Iterator[T], what: str) -> Iterator[T]:
    """A counter on a terminal; nothing in a pipe."""
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description} {task.completed}"), console=console, transient=True,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(what)
        for change in changes:
            yield change
            progress.advance(task)
