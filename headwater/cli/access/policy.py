"""`headwater policy`: creates policies, and maps them to what they apply to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import rich_click as click

from headwater.cli.access.record_commands import (
    RealmTarget,
    RecordTable,
    at_path,
    delete_command,
    list_command,
    reads_realm,
    writes_realm,
)
from headwater.cli.output import show_done
from headwater.cli.target import key_of
from headwater.manage import ManagedRealm
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.http.manage_json import PolicyInfo

POLICIES = RecordTable[PolicyInfo](
    "policies",
    ["policy", "type", "content", "description"],
    lambda one: (one.name, one.type, msgspec.json.encode(one.content).decode(), one.description),
)

content_option = click.option("--content", "content_text", metavar="JSON", default="{}", help="The content, a JSON object.")
target_catalog = click.option("--catalog", metavar="NAME", help="To this catalog. Default: to the realm.")


@click.group()
def command() -> None:
    """Create policies, and map them to the realm, a catalog, or a path of it."""


@command.command()
@click.argument("name")
@click.option("--type", "policy_type", required=True, help="What kind of policy it is, e.g. retention.")
@content_option
@click.option("--description", default="", help="What it is for.")
@writes_realm
def create(at: RealmTarget, name: str, policy_type: str, content_text: str, description: str) -> None:
    """Create a policy."""
    content = _content(content_text)
    with at.managed() as manage:
        made = manage.create_policy(name, type=policy_type, content=content, description=description)
    POLICIES.show(made, at.json_output)


list_command(command, POLICIES, "Show the policies, in order of name.", lambda manage: manage.policies())


@command.command()
@click.argument("name")
@content_option
@click.option("--description", help="What it is for. Default: unchanged.")
@writes_realm
def update(at: RealmTarget, name: str, content_text: str, description: str | None) -> None:
    """Change the content of a policy."""
    content = _content(content_text)
    with at.managed() as manage:
        written = manage.update_policy(name, content=content, description=description)
    POLICIES.show(written, at.json_output)


delete_command(
    command,
    "policy",
    "Delete a policy.",
    lambda manage, name, detach_all: manage.delete_policy(name, detach_all=detach_all),
    click.option("--detach-all", is_flag=True, help="Delete its mappings too."),
)


def _mapping(verb: str, help: str, act: Callable[[ManagedRealm, str, str | None, KeyPath], None], done: str) -> None:
    """`attach` and `detach` differ in what they call and say."""

    @command.command(verb, help=help)
    @click.argument("name")
    @target_catalog
    @at_path
    @writes_realm
    def run(at: RealmTarget, name: str, catalog: str | None, path_text: str) -> None:
        with at.managed() as manage:
            act(manage, name, catalog, key_of(path_text))
        facts = {f"{verb}ed": name, "catalog": catalog, "path": key_of(path_text)}
        show_done(f"{name} is {done} {catalog or 'the realm'} {path_text}".strip(), facts, at.json_output)


_mapping(
    "attach",
    "Map a policy to the realm, a catalog, or a path of it.",
    lambda manage, name, catalog, path: manage.attach(name, catalog, path),
    "attached to",
)
_mapping(
    "detach",
    "Detach a policy from what it was mapped to.",
    lambda manage, name, catalog, path: manage.detach(name, catalog, path),
    "detached from",
)


@command.command()
@target_catalog
@at_path
@reads_realm
def applicable(at: RealmTarget, catalog: str | None, path_text: str) -> None:
    """Show the policies that apply: the nearest of each type."""
    with at.managed() as manage:
        found = manage.applicable(catalog, key_of(path_text))
    POLICIES.show_all(found, at.json_output)


def _content(text: str) -> Value:
    try:
        return msgspec.json.decode(text, type=dict)
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"it is not a JSON object: {error}.", param_hint="--content") from None
