"""Restores the typed error that a worker or the planner raised from the error in which Spark wraps it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.schemas import errors
from headwater.schemas.errors import HeadwaterError, SparkFailed

_RAISED = re.compile(r"headwater\.schemas\.errors\.(\w+): (.*)")


def typed_error(error: BaseException) -> HeadwaterError:
    """Workers report an exception as text: the last of our lines in it is the error that was raised."""
    if isinstance(error, HeadwaterError):
        return error
    found = _RAISED.findall(str(error))
    if found:
        name, message = found[-1]
        known = getattr(errors, name, None)
        if isinstance(known, type) and issubclass(known, HeadwaterError):
            return known(message.strip())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return SparkFailed(
        f"the Spark job failed: {lines[0] if lines else type(error).__name__}", remedy="Spark's own log has the whole story."
    )


@contextmanager
def typed_errors() -> Iterator[None]:
    """Wraps actions and streams, so that they raise a `HeadwaterError`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, HeadwaterError):
        raise
    except Exception as error:
        raise typed_error(error) from error
