"""Prints the result of a commit as one line or as JSON."""

from __future__ import annotations

from headwater.cli.output import echo, print_json
from headwater.producer.commits.catalog_commit import CommitResult


def print_commit(result: CommitResult, json_output: bool) -> None:
    if json_output:
        facts = {"commit_id": result.commit_id, "seq": result.seq, "replayed": result.replayed}
        print_json({"change": result.change, **facts})
    elif result.change is None:
        echo(f"nothing to do: the head stays at {result.commit_id} (seq {result.seq})")
    else:
        again = ", committed before under the same request id" if result.replayed else ""
        echo(f"{result.change.kind} {result.commit_id} (seq {result.seq}{again})")
