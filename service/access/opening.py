"""A config enters; what asks for identities and rights leaves, as the settings choose it."""

from __future__ import annotations

from headwater.service.access.access import Access
from headwater.service.access.denials import Denials
from headwater.service.access.development import DevelopmentProvider, EverythingAllowed
from headwater.service.access.rate_limits import RateLimits
from headwater.service.config import ServeConfig
from headwater.service.dev_realm import DEV_REALM
from headwater.service.operations.realm_feeds import RealmFeeds


def open_access(config: ServeConfig, feeds: RealmFeeds) -> Access:
    provider = DevelopmentProvider(feeds, DEV_REALM)
    return Access(provider, EverythingAllowed(), Denials(feeds.store), RateLimits())
