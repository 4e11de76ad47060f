"""`headwater reconcile`: reconciles connectors in a process of its own."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

import rich_click as click

from headwater.cli.connectors.connector import JOBS
from headwater.cli.output import as_json
from headwater.cli.target import key_of, the_store
from headwater.producer.connectors.connector_views import job_info
from headwater.producer.connectors.reconcile_jobs import Job, JobState
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

EXIT_FAILED = 1


@click.command()
@click.option("--realm", metavar="NAME", help="Only this realm. Default: all realms.")
@click.option("--connector", "only", metavar="NAME", help="Only this connector, with --once.")
@click.option(
    "--scope",
    "scopes",
    metavar="a.b",
    multiple=True,
    help="Only this namespace or table below the connector's path, with --once and --connector; may be repeated.",
)
@click.option("--once", is_flag=True, help="Reconcile every active connector now, once, and end.")
@as_json
@click.pass_obj
def command(
    settings: Settings, realm: str | None, only: str | None, scopes: Sequence[str], once: bool, json_output: bool
) -> None:
    """Reconcile the connectors of a store until stopped, like a server does.

    Several may run at once: a connector is reconciled by one process at a time. With --once the exit code is 1 if a
    connector failed as a whole.
    """
    from headwater.cli.connectors.local_connectors import reconcile_options
    from headwater.service.reconciling.reconciler import Reconciler

    if scopes and not (once and only):
        raise InvalidInput(
            "a scope is for one run of one connector.", field="--scope", remedy="Add --once and --connector NAME."
        )
    with the_store(settings) as store:
        options = reconcile_options(settings)
        if once:
            done = Reconciler(store, options, realm=realm).run_once(only, scope=[key_of(one) for one in scopes])
            JOBS.show_all([job_info(one) for one in done], json_output)
            if any(one.state is JobState.FAILED for one in done):
                sys.exit(EXIT_FAILED)
            return
        stopped = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        reconciler = Reconciler(store, options, realm=realm, on_job=lambda job: _tell(job, json_output))
        reconciler.start()
        stopped.wait()
        reconciler.close()


def _tell(job: Job, json_output: bool) -> None:
    JOBS.show(job_info(job), json_output)
