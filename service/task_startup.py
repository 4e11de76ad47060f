"""Starts the task runner of a worker for all ACTIVE realms."""

from __future__ import annotations

from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, Store
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.purging import files_named_by
from headwater.service.operations.task_runner import TaskRunner
from headwater.service.storage.storage_options import StorageOptions


def start_tasks(store: Store, storage: StorageOptions) -> TaskRunner:
    realms = Realms(store)

    def kernels() -> list[RealmKernel]:
        return [store.kernel(realm.instance) for realm in realms.all() if realm.status is RealmStatus.ACTIVE]

    runner = TaskRunner(kernels, files_named_by(Lakes(storage)))
    runner.start()
    return runner
