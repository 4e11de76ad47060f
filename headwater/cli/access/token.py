"""`headwater token`: fetches a token from a server for a client's id and secret."""

from __future__ import annotations

import rich_click as click

from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import in_realm
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings
from headwater.wiring.servers import server_connection


@click.command()
@in_realm
@as_json
@click.pass_obj
def command(settings: Settings, realm: str, json_output: bool) -> None:
    """Fetch a token from a server, for curl and other programs.

    The client's id and secret are the settings server_client_id and server_client_secret, e.g. HEADWATER_SERVER_CLIENT_ID
    and HEADWATER_SERVER_CLIENT_SECRET. Commands with these settings fetch and renew their own tokens.

        curl -H "Authorization: Bearer $(headwater token --server https://catalog.example.com)" …
    """
    if not settings.server:
        raise InvalidInput("no server is named.", field="server", remedy="Use --server URL.")
    token = server_connection(settings).token(realm)
    if json_output:
        print_json({"access_token": token.access_token, "expires_in": token.expires_in})
    else:
        echo(token.access_token)
