"""`headwater webhook`: posts signed changes of a server to a URL; refused ones go to a dead-letter file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
import rich_click as click

from headwater.cli.change_filter import filtered
from headwater.cli.feed.feed_sources import Pointers, feed_reader, which_pointers
from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import in_realm
from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.webhooks.dead_letters import read_dead_letters
from headwater.consumers.webhooks.webhook_addresses import CheckedTransport
from headwater.consumers.webhooks.webhook_delivery import TRIES_MAX, Webhook, WebhookSender
from headwater.consumers.webhooks.webhook_run import WebhookResult, send_again, send_all
from headwater.consumers.webhooks.webhook_signing import new_secret
from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import Filter
from headwater.settings import Settings

EXIT_DEAD_LETTERS = 1
"""All was sent, and not all was taken."""

to_url = click.option("--url", required=True, metavar="URL", help="The address to call, e.g. https://example.com/hook.")
secret_from = click.option(
    "--secret-env", default="HEADWATER_WEBHOOK_SECRET", show_default=True, metavar="NAME",
    help="The environment variable with the signing secret; several, separated by commas, during a rotation.",
)  # fmt: skip
private = click.option("--allow-private", is_flag=True, help="Call private, loopback and link-local addresses too.")
tries = click.option("--tries", default=TRIES_MAX, show_default=True, type=click.IntRange(1, 100), help="The most attempts.")


@click.group()
def command() -> None:
    """Send signed changes to an address, and retry until they are accepted."""


@command.command()
@which_pointers
@in_realm
@to_url
@secret_from
@click.option("--cursor-file", required=True, metavar="FILE", help="File that stores the position between runs.")
@click.option("--dead-letters", required=True, metavar="FILE", help="File for changes that were not accepted.")
@click.option("--after", default="latest", show_default=True, help="Where the first run starts.")
@filtered
@click.option("--follow", is_flag=True, help="Wait for further changes.")
@tries
@private
@as_json
@click.pass_obj
def send(
    settings: Settings,
    pointers: tuple[str, ...],
    catalog: str | None,
    branch: str | None,
    realm: str,
    url: str,
    secret_env: str,
    cursor_file: str,
    dead_letters: str,
    after: str,
    wanted: Filter,
    follow: bool,
    tries: int,
    allow_private: bool,
    json_output: bool,
) -> None:
    """Send every change to URL, in order, each at least once; the receiver recognises repeats by `webhook-id`.

    Bodies are CloudEvents in JSON, signed by the Standard Webhooks specification. A change that is refused, or not
    accepted after all attempts, goes to the dead-letter file, and the next one is sent. An address that is forbidden or
    does not exist ends the command with exit code 2, and the position stays.
    """
    webhook = _webhook(url, secret_env, allow_private, tries)
    kept, dead = CursorFile(Path(cursor_file)), Path(dead_letters)
    chosen = Pointers(pointers, catalog, branch)
    with httpx.Client(transport=CheckedTransport()) as client:
        sender = WebhookSender(webhook, dead, client=client)
        sender.check()
        with feed_reader(settings, realm, chosen, kept.read() or after, wanted=wanted) as (reader, _):
            result = send_all(reader, sender, kept, follow=follow)
    _show(result, dead, json_output)


@command.command()
@click.argument("file")
@click.option("--url", metavar="URL", help="Send to this address instead of the one that refused the change.")
@secret_from
@click.option("--dead-letters", metavar="FILE", help="File for changes that are refused again. Default: FILE.again.")
@tries
@private
@as_json
def redeliver(
    file: str,
    url: str | None,
    secret_env: str,
    dead_letters: str | None,
    tries: int,
    allow_private: bool,
    json_output: bool,
) -> None:
    """Send the changes in the dead-letter FILE again, each to the address that refused it. FILE stays as it is.

    A line that a crash has truncated is reported and skipped: its change is sent again when the sender is restarted.
    """
    dead = Path(dead_letters or f"{file}.again")
    if not Path(file).exists() or Path(file).resolve() == dead.resolve():
        raise InvalidInput(f"{file} is not there, or takes dead letters itself.", field="FILE", remedy="Name another file.")
    torn: list[int] = []
    letters = list(read_dead_letters(Path(file), torn.append))
    with httpx.Client(transport=CheckedTransport()) as client:
        senders = {
            to: WebhookSender(_webhook(to, secret_env, allow_private, tries), dead, client=client)
            for to in dict.fromkeys(url or letter.url for letter in letters)
        }
        for sender in senders.values():
            sender.check()
        result = send_again((senders[url or letter.url], letter.event.data) for letter in letters)
    for number in torn:
        click.echo(f"{file}, line {number} is truncated and was skipped", err=True)
    _show(result, dead, json_output)


@command.command()
def secret() -> None:
    """Create a signing secret; the receiver needs the same one."""
    echo(new_secret())


def _webhook(url: str, secret_env: str, allow_private: bool, tries: int) -> Webhook:
    secrets = tuple(part.strip() for part in os.environ.get(secret_env, "").split(",") if part.strip())
    if not secrets:
        raise InvalidInput(
            f"{secret_env} is empty.", field="secret_env", remedy="Put a secret into it: `headwater webhook secret` makes one."
        )
    return Webhook(url=url, secrets=secrets, allow_private=allow_private, tries_max=tries)


def _show(result: WebhookResult, dead: Path, json_output: bool) -> None:
    if json_output:
        facts = {"file": str(dead), "last_error": result.last_error} if result.dead_letters else {}
        print_json({"taken": result.taken, "dead_letters": result.dead_letters, **facts})
    elif result.dead_letters:
        buried = f"{result.dead_letters} are dead letters in {dead}; the last: {result.last_error}"
        echo(f"{result.taken} changes were taken, {buried}")
    else:
        echo(f"{result.taken} changes were taken")
    if result.dead_letters:
        sys.exit(EXIT_DEAD_LETTERS)
