"""`headwater maintain schedule`: maintains all realms at an interval; several processes share one cycle."""

from __future__ import annotations

import contextlib

import rich_click as click

from headwater.cli.maintenance.maintain_output import Amount, failed_if, merged_failures
from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import the_store
from headwater.settings import Settings

LOOK_SECONDS_MAX = 60.0


@click.command("schedule")
@click.option("--every", metavar="HOURS", type=Amount(0, min_open=True), default=6.0, show_default=True, help="Interval.")
@click.option("--once", is_flag=True, help="Run one cycle now, whenever the next one is due.")
@as_json
@click.pass_obj
def schedule_command(settings: Settings, every: float, once: bool, json_output: bool) -> None:
    """Expire, purge and sweep all realms and the files of tables on a schedule, until interrupted.

    Files are swept every 24 hours, and only below storage roots that `maintain files claim` has claimed. Several
    processes, including servers with --maintain and `headwater stream`, share the turns: one of them runs each step.
    """
    from headwater.schemas.errors import HeadwaterError
    from headwater.streaming.schedule import COME_BACK_SECONDS, CycleReport, StepTurns, run_cycle
    from headwater.wiring.maintenance import cycle_tools, schedule_options

    options = schedule_options(settings, every * 3_600)

    def print_cycle(report: CycleReport) -> None:
        if json_output:
            print_json(report)
        else:
            echo(
                f"{report.expired} entries expired, {report.realms_purged} realms, {report.catalogs_purged} catalogs, "
                f"{report.rows_purged} rows and {report.files_purged} files purged"
            )

    with the_store(settings) as store, contextlib.suppress(KeyboardInterrupt):
        tools = cycle_tools(store, settings)
        if once:
            report = run_cycle(store, options, tools)
            print_cycle(report)
            failed_if(report.failures)
            return
        turns = StepTurns(store, options)
        while True:
            try:
                steps, wait_seconds = turns.take()
                if steps:
                    report = run_cycle(store, options, tools, steps=steps)
                    print_cycle(report)
                    merged_failures(report.failures)
                    if report.busy:
                        turns.come_back(steps, min(COME_BACK_SECONDS, options.every_seconds))
            except HeadwaterError as error:  # the store is away: the night is not over for that
                merged_failures([str(error)])
                wait_seconds = min(COME_BACK_SECONDS, options.every_seconds)
            if wait_seconds > 0:
                store.clock.sleep(min(wait_seconds, LOOK_SECONDS_MAX))


COMMANDS = (schedule_command,)
"""What the group `maintain` adds."""
