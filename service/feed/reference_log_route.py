"""Serves the log of all references of a catalog: `git reflog` for a lakehouse, in pages, newest first."""

from __future__ import annotations

import asyncio

from headwater.producer.history.reference_log import ReferenceLog, ReferenceLogPage
from headwater.schemas.change import Change, Kind
from headwater.schemas.http.feed_json import ReferenceLogAnswer
from headwater.service.auth.feed_view import FeedView, Viewer
from headwater.service.feed.call import FeedCall
from headwater.service.feed.named_branch import named_catalog
from headwater.service.http.responses import Response, json_response


async def reference_log(call: FeedCall) -> Response:
    given, viewer = call.query, call.viewer
    catalog = await named_catalog(call.feed, viewer, given["catalog"])
    shown = _Shown(viewer)

    def read() -> ReferenceLogPage:
        kinds = {Kind(kind) for kind in given["kind"]}
        log = ReferenceLog(call.kernel, catalog.id)
        return log.page(token=given["token"], limit=given["limit"], kinds=kinds, shown=shown)

    page = await asyncio.to_thread(read)
    return json_response(ReferenceLogAnswer(changes=page.changes, next_token=page.next_token, withheld=shown.is_partial))


class _Shown:
    """Changes as the caller may see them. What may be seen of a pointer is asked once a page."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._views: dict[str, FeedView | None] = {}
        self.is_partial = False

    def __call__(self, change: Change) -> Change | None:
        pointer = change.pointer
        if pointer not in self._views:
            self._views[pointer] = self._viewer.view_now(pointer)
        view = self._views[pointer]
        if view is None:
            return change
        self.is_partial = True
        return view.seen(change)
