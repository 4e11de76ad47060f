"""`headwater webhook`: posts signed changes of a server to a URL; refused ones go to a dead-letter file."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import rich_click as click

from headwater.cli.feed.feed_sources import connected
from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import in_catalog
from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.webhooks.dead_letters import read_dead_letters
from headwater.consumers.webhooks.webhook_delivery import TRIES_MAX, Webhook, WebhookSender, deliver
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput

to_url = click.option("--url", required=True, metavar="URL", help="The address to call, e.g. https://example.com/hook.")
secret_from = click.option(
    "--secret-env", default="HEADWATER_WEBHOOK_SECRET", show_default=True, metavar="NAME",
    help="The variable that holds the secret to sign with; several, separated by commas, while it is being rotated.",
)  # fmt: skip
private = click.option("--allow-private", is_flag=True, help="Call private, loopback and link-local addresses too.")
tries = click.option("--tries", default=TRIES_MAX, show_default=True, type=click.IntRange(1, 100), help="How often at most.")


@click.group()
def command() -> None:
    """Send changes to an address, signed, and again until they are taken."""


@command.command()
@click.option("--server", required=True, metavar="URL", help="Of a server, e.g. http://127.0.0.1:8181.")
@click.option("--pointer", "pointers", multiple=True, metavar="NAME", help="Read this one, e.g. cat/1/heads/main.")
@click.option("--branch", default="main", show_default=True, help="The branch to read, if no pointer is named.")
@in_catalog
@to_url
@secret_from
@click.option("--cursor-file", required=True, metavar="FILE", help="Keeps the position between runs.")
@click.option("--dead-letters", required=True, metavar="FILE", help="Where changes go that were not taken.")
@click.option("--after", default="latest", show_default=True, help="Where the first run begins.")
@click.option("--follow", is_flag=True, help="Wait for more.")
@tries
@private
@as_json
def send(
    server: str,
    pointers: tuple[str, ...],
    branch: str,
    realm: str,
    catalog: str,
    url: str,
    secret_env: str,
    cursor_file: str,
    dead_letters: str,
    after: str,
    follow: bool,
    tries: int,
    allow_private: bool,
    json_output: bool,
) -> None:
    """Send every change to URL, in order, each at least once; the receiver tells repeats by the envelope's id.

    What is refused, or not taken after all tries, goes to the dead-letter file, and the next change is sent.
    """
    webhook = _webhook(url, secret_env, allow_private, tries)
    kept = CursorFile(Path(cursor_file))
    sent = 0
    with connected(server, realm) as remote, httpx.Client() as client:
        chosen = pointers or (remote.catalog(catalog).branch(branch).pointer,)
        reader = remote.reader(chosen, kept.read() or after)
        kept.write(reader.begin(follow=follow))
        sender = WebhookSender(webhook, Path(dead_letters), client=client)

        def delivered(change: Change) -> None:
            nonlocal sent
            sent += 1
            kept.write(reader.cursor)

        buried = sum(1 for _ in deliver(reader.changes(follow=follow), [sender], delivered))
        kept.write(reader.cursor)
    _say(sent - buried, buried, json_output)


@command.command()
@click.argument("file")
@to_url
@secret_from
@click.option("--dead-letters", required=True, metavar="FILE", help="Where changes go that were not taken again.")
@tries
@private
@as_json
def redeliver(
    file: str, url: str, secret_env: str, dead_letters: str, tries: int, allow_private: bool, json_output: bool
) -> None:
    """Send what is in the dead-letter FILE again.

    A line that a crash has torn is named and skipped: its change was sent again when the sender was started again.
    """
    if not Path(file).exists() or Path(file).resolve() == Path(dead_letters).resolve():
        raise InvalidInput(f"{file} is not there, or takes dead letters itself.", field="FILE", remedy="Name another file.")
    webhook = _webhook(url, secret_env, allow_private, tries)
    with httpx.Client() as client:
        sender = WebhookSender(webhook, Path(dead_letters), client=client)
        torn: list[int] = []
        taken = [sender.send(letter.envelope.change) for letter in read_dead_letters(Path(file), torn.append)]
    for number in torn:
        click.echo(f"{file}, line {number} is torn and was skipped", err=True)
    _say(sum(taken), len(taken) - sum(taken), json_output)


def _webhook(url: str, secret_env: str, allow_private: bool, tries: int) -> Webhook:
    secrets = tuple(part.encode() for part in os.environ.get(secret_env, "").split(",") if part)
    if not secrets:
        raise InvalidInput(f"{secret_env} is empty.", field="secret_env", remedy="Put the secret into that variable.")
    return Webhook(url=url, secrets=secrets, allow_private=allow_private, tries_max=tries)


def _say(taken: int, buried: int, json_output: bool) -> None:
    if json_output:
        print_json({"taken": taken, "dead_letters": buried})
    else:
        echo(f"{taken} changes were taken, {buried} are dead letters")
