"""`headwater policy`: creates policies, and maps them to what they apply to."""

from __future__ import annotations

import msgspec
import rich_click as click

from headwater.cli.access.access_target import access_kernel, at_path, catalog_id, confirmed, path_of, write_meta, yes
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import author, in_realm
from headwater.persistence.store import RealmKernel
from headwater.producer.access.policies import Policies, Policy, Target
from headwater.schemas.change import Value
from headwater.settings import Settings

content_option = click.option("--content", "content_text", metavar="JSON", default="{}", help="What it says, a JSON object.")
target_catalog = click.option("--catalog", metavar="NAME", help="To this catalog; to the realm, if left out.")


@click.group()
def command() -> None:
    """Keep policies, and map them to the realm, a catalog, or a path of it."""


@command.command()
@click.argument("name")
@click.option("--type", "policy_type", required=True, help="What kind of policy it is, e.g. retention.")
@content_option
@click.option("--description", default="", help="What it is for.")
@in_realm
@author
@as_json
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    policy_type: str,
    content_text: str,
    description: str,
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Create a policy."""
    content = _content(content_text)
    with access_kernel(settings, realm) as kernel:
        made = Policies(kernel).create(
            name, type=policy_type, content=content, description=description, meta=write_meta(author)
        )
    _show([made.value], json_output)


@command.command("list")
@in_realm
@as_json
@click.pass_obj
def list_policies(settings: Settings, realm: str, json_output: bool) -> None:
    """Show the policies, in order of name."""
    with access_kernel(settings, realm) as kernel:
        found = list(Policies(kernel).list())
    if json_output:
        print_json({"policies": found})
    else:
        _show(found, json_output=False)


@command.command()
@click.argument("name")
@content_option
@click.option("--description", help="What it is for; stays, if left out.")
@in_realm
@author
@as_json
@click.pass_obj
def update(
    settings: Settings,
    name: str,
    content_text: str,
    description: str | None,
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Change what a policy says."""
    content = _content(content_text)
    with access_kernel(settings, realm) as kernel:
        written = Policies(kernel).update(name, content=content, description=description, meta=write_meta(author))
    _show([written.value], json_output)


@command.command()
@click.argument("name")
@click.option("--detach-all", is_flag=True, help="Its mappings go too.")
@yes
@in_realm
@author
@as_json
@click.pass_obj
def delete(
    settings: Settings, name: str, detach_all: bool, yes: bool, realm: str, author: str | None, json_output: bool
) -> None:
    """Delete a policy."""
    confirmed(f"Delete policy {name}?", yes)
    with access_kernel(settings, realm) as kernel:
        Policies(kernel).delete(name, detach_all=detach_all, meta=write_meta(author))
    if json_output:
        print_json({"deleted": name})


@command.command()
@click.argument("name")
@target_catalog
@at_path
@in_realm
@author
@as_json
@click.pass_obj
def attach(
    settings: Settings, name: str, catalog: str | None, path_text: str, realm: str, author: str | None, json_output: bool
) -> None:
    """Map a policy to the realm, a catalog, or a path of it."""
    with access_kernel(settings, realm) as kernel:
        written = Policies(kernel).attach(name, _target(kernel, catalog, path_text), meta=write_meta(author))
    if json_output:
        print_json(written.value)
    else:
        echo(f"{name} is attached to {catalog or 'the realm'} {path_text}".strip())


@command.command()
@click.argument("name")
@target_catalog
@at_path
@in_realm
@author
@as_json
@click.pass_obj
def detach(
    settings: Settings, name: str, catalog: str | None, path_text: str, realm: str, author: str | None, json_output: bool
) -> None:
    """Take a mapping away."""
    with access_kernel(settings, realm) as kernel:
        Policies(kernel).detach(name, _target(kernel, catalog, path_text), meta=write_meta(author))
    if json_output:
        print_json({"detached": name})
    else:
        echo(f"{name} is detached from {catalog or 'the realm'} {path_text}".strip())


@command.command()
@target_catalog
@at_path
@in_realm
@as_json
@click.pass_obj
def applicable(settings: Settings, catalog: str | None, path_text: str, realm: str, json_output: bool) -> None:
    """Show what applies to a thing: of each type the nearest."""
    with access_kernel(settings, realm) as kernel:
        found = [policy for policy, _ in Policies(kernel).applicable(_target(kernel, catalog, path_text))]
    if json_output:
        print_json({"policies": found})
    else:
        _show(found, json_output=False)


def _target(kernel: RealmKernel, catalog: str | None, path_text: str) -> Target:
    return Target(None if catalog is None else catalog_id(kernel, catalog), path_of(path_text))


def _content(text: str) -> Value:
    try:
        return msgspec.json.decode(text, type=dict)
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"it is no JSON object: {error}.", param_hint="--content") from None


def _show(policies: list[Policy], json_output: bool) -> None:
    if json_output:
        print_json(policies[0])
        return
    rows = [(one.name, one.type, msgspec.json.encode(one.content).decode(), one.description) for one in policies]
    print_table(["policy", "type", "content", "description"], rows)
