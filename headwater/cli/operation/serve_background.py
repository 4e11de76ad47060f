"""The server's options for background work: expiry of keys, plans, measurement of usage, languages."""

from __future__ import annotations

from typing import Any

from headwater.settings import Settings

HOUR_SECONDS = 3_600


def background_settings(settings: Settings, *, dev: bool) -> dict[str, Any]:
    from headwater.cli.connectors.local_connectors import reconcile_options
    from headwater.producer.plans.plan_rows import PlanOptions
    from headwater.service.idempotency.expiry import CleaningOptions
    from headwater.service.idempotency.run_once import IdempotencyOptions
    from headwater.service.usage.measurement import MeasuringOptions

    return {
        "idempotency": IdempotencyOptions(
            kept_seconds=settings.idempotency_hours * HOUR_SECONDS,
            running_seconds=settings.idempotency_running_seconds,
            wait_seconds=settings.idempotency_wait_seconds,
        ),
        "idempotency_cleaning": CleaningOptions(
            every_seconds=settings.idempotency_gc_seconds,
            page_rows=settings.idempotency_gc_page,
            batch_rows_max=settings.idempotency_gc_batch,
            slice_seconds=settings.idempotency_gc_slice_seconds,
        ),
        "plans": PlanOptions(
            seconds=min(settings.plan_seconds, settings.plan_seconds_max),
            seconds_max=settings.plan_seconds_max,
            grace_seconds=settings.plan_grace_seconds,
            age_hours=settings.plan_age_hours,
            plans_max=settings.plans_max,
            plans_per_principal_max=settings.plans_per_principal_max or max(1, settings.plans_max // 10),
            inputs_max=settings.plan_inputs_max,
        ),
        "usage": MeasuringOptions(every_seconds=settings.usage_seconds),
        "reconcile": reconcile_options(settings, dev=dev),
        "messages_dir": settings.messages_dir,
    }
