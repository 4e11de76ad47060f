"""Builds authentication and authorization from the settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib import metadata
from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.service.auth.access import Access
from headwater.service.auth.rights.authorizer import RecordAuthorizer, RightsOfRealms
from headwater.service.auth.rights.denials import Denials
from headwater.service.auth.rights.development import DevelopmentProvider, EverythingAllowed
from headwater.service.auth.rights.protocols import AUTHORIZER_GROUP, PRINCIPALS_GROUP, Authorizer, PrincipalProvider
from headwater.service.auth.rights.rate_limits import RateLimits
from headwater.service.auth.tokens.credentials import CredentialCheck
from headwater.service.auth.tokens.jwks import Jwks, fetch_document
from headwater.service.auth.tokens.oidc import Issuers, read_issuers
from headwater.service.auth.tokens.peer_principals import PeerPrincipals
from headwater.service.auth.tokens.signing_keys import SigningKeys
from headwater.service.auth.tokens.token_endpoint import TokenEndpoint
from headwater.service.auth.tokens.token_provider import TokenProvider
from headwater.service.config import ServeConfig
from headwater.service.operations.realm_feeds import RealmFeeds

TOKENS, RECORDS = "tokens", "records"
DAY_SECONDS = 24 * 3_600


class AccessParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a plug-in is made from."""

    config: ServeConfig
    feeds: RealmFeeds
    realms: RightsOfRealms


def build_access(config: ServeConfig, feeds: RealmFeeds) -> Access:
    denials = Denials(feeds.store)
    if config.dev:
        return Access(DevelopmentProvider(feeds, config.default_realm), EverythingAllowed(), denials, RateLimits())
    parts = AccessParts(config=config, feeds=feeds, realms=RightsOfRealms(feeds))
    own, endpoint = _tokens(parts)
    provider: PrincipalProvider = own
    if config.principal_provider != TOKENS:
        provider = _plugged(PRINCIPALS_GROUP, config.principal_provider, "principal_provider")(parts)
    authorizer: Authorizer = RecordAuthorizer(parts.realms)
    if config.authorizer != RECORDS:
        authorizer = _plugged(AUTHORIZER_GROUP, config.authorizer, "authorizer")(parts)
    limits = RateLimits(config.rate_limit_per_second, config.rate_limit_burst)
    peers = PeerPrincipals(parts.realms)
    return Access(provider, authorizer, denials, limits, tokens=endpoint, peers=peers, on_close=parts.realms.close)


def check_access(config: ServeConfig) -> None:
    """What can be refused before a worker starts, and dies of it."""
    if config.dev:
        return
    read_issuers(config.oidc_config)
    if config.principal_provider != TOKENS:
        _plugged(PRINCIPALS_GROUP, config.principal_provider, "principal_provider")
    if config.authorizer != RECORDS:
        _plugged(AUTHORIZER_GROUP, config.authorizer, "authorizer")


def _tokens(parts: AccessParts) -> tuple[TokenProvider, TokenEndpoint]:
    config, clock = parts.config, parts.feeds.store.clock
    keys = SigningKeys(
        parts.feeds.store,
        rotate_seconds=config.token_key_days * DAY_SECONDS,
        outlive_seconds=config.token_seconds,
        entropy=secrets.token_bytes,
    )
    issuers = read_issuers(config.oidc_config)
    jwks = {one.issuer: Jwks(one.issuer, one.jwks_url, fetch_document) for one in issuers}
    provider = TokenProvider(parts.realms, keys, Issuers(issuers, jwks), clock)
    credentials = CredentialCheck(parts.realms, clock, cost=config.secret_cost)
    return provider, TokenEndpoint(credentials, provider, keys, clock, config.token_seconds)


def _plugged(group: str, name: str, field: str) -> Callable[[AccessParts], Any]:
    for entry_point in metadata.entry_points(group=group, name=name):
        made: Callable[[AccessParts], Any] = entry_point.load()
        return made
    raise InvalidInput(f"no installed package provides {name!r}.", field=field, remedy=f"Install one with {group!r}.")
