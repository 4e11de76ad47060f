"""`headwater maintain files follow`: reads what commits bring into the manifest cache, so that sweeps find their work done."""

from __future__ import annotations

import contextlib

import rich_click as click

from headwater.cli.maintenance.maintain_output import Amount, failed_if, merged_failures, progress_bar
from headwater.cli.maintenance.maintain_purge_files import operations_of
from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import the_store
from headwater.schemas.errors import HeadwaterError
from headwater.settings import Settings


@click.command("follow")
@click.option(
    "--every", metavar="SECONDS", type=Amount(0, min_open=True), default=10.0, show_default=True, help="Time between rounds."
)
@click.option("--once", is_flag=True, help="Read up to the current heads, then exit.")
@click.option("--rebuild", is_flag=True, help="Start again with the oldest retained states.")
@as_json
@click.pass_obj
def follow_command(settings: Settings, every: float, once: bool, rebuild: bool, json_output: bool) -> None:
    """Follow the log, and read the files of each new table version into the manifest cache below `maintenance_dir`.

    A sweep does all of its checks as usual, but finds most manifests read already. Versions that cannot be read are
    reported at once; with --once, the exit code is then 1.
    """
    from headwater.streaming.files.watch.follow import FileFollower, FollowReport

    def show(report: FollowReport) -> None:
        if json_output:
            print_json(report)
        elif report.contents or once:
            echo(f"{report.contents} versions followed, {report.read} manifests and manifest lists read")

    with the_store(settings) as store, progress_bar() as bar, contextlib.suppress(KeyboardInterrupt):
        follower = FileFollower(store, operations_of(settings), threads=settings.files_threads, on_progress=bar.add)
        if rebuild:
            follower.rebuild()
        damage: list[str] = []
        while True:
            try:
                report = follower.turn()
            except HeadwaterError as error:  # the store or the storage is away
                if once:
                    raise
                merged_failures([str(error)])
                report = FollowReport()
            show(report)
            damage += report.failures + report.damage
            if once and not report.is_behind:
                failed_if(damage)
                return
            if not once:
                merged_failures(report.failures + report.damage)
                damage = []
            if not report.is_behind:
                store.clock.sleep(every)
