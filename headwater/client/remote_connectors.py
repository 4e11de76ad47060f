"""Calls to a server about connectors and their jobs."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client.remote_manage import Resources
from headwater.schemas.change import KeyPath
from headwater.schemas.http import connector_json as json
from headwater.schemas.http.connector_json import ConnectorBody, ConnectorChange, ConnectorInfo, ConnectorValid, JobInfo
from headwater.schemas.http.manage_json import Gone


class RemoteConnectors(Resources):
    """The connectors of one realm."""

    def connectors(self) -> Sequence[ConnectorInfo]:
        return [one for page in self._pages(self._path("connectors"), json.ConnectorsPage) for one in page.connectors]

    def connector(self, name: str) -> ConnectorInfo:
        return self._get(self._path("connectors", name), ConnectorInfo)

    def add(self, body: ConnectorBody) -> ConnectorInfo:
        return self._change("POST", self._path("connectors"), json.ConnectorWritten, body).connector

    def change(self, name: str, body: ConnectorChange) -> ConnectorInfo:
        return self._change("PUT", self._path("connectors", name), json.ConnectorWritten, body).connector

    def remove(self, name: str) -> None:
        self._change("DELETE", self._path("connectors", name), Gone)

    def validate(self, name: str) -> ConnectorValid:
        return self._change("POST", self._path("connectors", name, "validate"), ConnectorValid)

    def reconcile(self, name: str, *, full_rescan: bool, scope: Sequence[KeyPath] = ()) -> JobInfo:
        body = json.JobBody(full_rescan=full_rescan, scope=[list(path) for path in scope])
        return self._change("POST", self._path("connectors", name, "jobs"), JobInfo, body)

    def jobs(self, name: str) -> Sequence[JobInfo]:
        return self._get(self._path("connectors", name, "jobs"), json.JobsPage).jobs

    def cancel(self, name: str, job: str) -> JobInfo:
        return self._change("POST", self._path("connectors", name, "jobs", job, "cancel"), JobInfo)
