"""The error tree: each class has a code, a status, a remedy and facts, the same for CLI, HTTP and gRPC.

HeadwaterError
├── InvalidInput              400  the request is not valid: names the field and the remedy
│   ├── InvalidStoreUrl
│   ├── InvalidName
│   ├── KafkaRefused              brokers do not let this client in: TLS, SASL
│   ├── IdOutOfRange
│   ├── AddressForbidden              a webhook to a private, loopback or link-local address
│   ├── LocationForbidden             a location outside of the catalog's warehouse, or on another table's
│   ├── MalformedMetadata             a table's or view's metadata, or an update of it, contradicts itself
│   │   └── MalformedViewVersion      a version of a view without a query, or with two in one dialect
│   ├── ExportDamaged                 an exported file is cut off, altered, or none at all
│   ├── ExportVersionMismatch          an exported file of a format that this version does not read
│   ├── Unsupported           406  known and well-formed, but not done here
│   ├── Contradiction         422  two parts of one request exclude each other
│   ├── ObjectTooLarge        413  a strong write over the row limit
│   ├── RequestTooLarge       413  a request's body over what the server takes
│   └── RequestTooSlow        408  a request's body that did not come within its time
├── NotFound                  404
│   ├── RealmNotFound
│   ├── PointerNotFound
│   │   └── PointerPurged         410  its catalog was purged; says where its log ended
│   ├── HistoryForgotten      410  a dropped table whose history an operator gave up: its files are deleted
│   ├── CatalogNotFound
│   ├── ReferenceNotFound             no such branch, tag or commit
│   ├── NamespaceNotFound
│   ├── TableNotFound
│   ├── ViewNotFound
│   ├── SnapshotNotFound              the table has no such snapshot
│   ├── PlanNotFound                  the plan has ended, or is another principal's
│   ├── ContentNotFound               nothing stands at that key
│   ├── FileMissing                   a file that metadata or a caller names is not on storage
│   ├── RecordNotFound                no such realm, catalog, principal, role or grant
│   ├── SubscriptionNotFound
│   ├── RouteNotFound                 the server has no such path
│   ├── MethodNotAllowed      405  the path is there, but not for this method
│   └── ObjectNotFound
├── Conflict                  409
│   ├── CommitConflict                operations that the head refuses, each with kind and key
│   ├── RequirementFailed             what a commit asserts of a table or view does not hold (any more)
│   ├── NamespaceNotEmpty             what is inside must go first
│   ├── MergeBaseExpired              the history that both sides share is gone
│   ├── ReferenceProtected            the default branch is not deleted, a tag takes no commits
│   ├── AlreadyExists
│   │   ├── RealmExists
│   │   ├── CatalogExists
│   │   ├── ReferenceExists
│   │   ├── ContentExists                 a namespace, table or view of that name
│   │   ├── RecordExists
│   │   ├── SubscriptionExists
│   │   └── DuplicateRegistration     two plug-ins claim one name
│   ├── RecordChanged                 another one has written the record since it was read
│   ├── SubscriptionMoved             another reader has moved the subscription since it was read
│   ├── IdempotencyKeyReused          the same key came before with another request
│   ├── IdempotencyKeyBusy            retriable: the first request of that key is still at work
│   ├── PreconditionFailed    412  If-Match names a version that is not the newest any more
│   ├── CatalogNotEmpty               what is inside must go first
│   ├── FilesCondemned                a commit needs a file that is about to be deleted
│   ├── SnapshotPinned                a snapshot that a commit removes is read by a plan
│   ├── SnapshotExpired               what a plan would read is gone, or about to go
│   ├── RealmStateConflict            an edge that the realm life cycle does not have
│   └── RealmNotActive                user work on a realm that does not serve
├── StoreRefused              500  the store can be reached but must not be used as it is
│   ├── StoreNotCreated
│   ├── StoreVersionMismatch
│   ├── StoreAccessDenied
│   ├── StoreNotDurable
│   └── StorageDenied         502  the storage of files refuses our credentials
├── CursorGone                410  the feed cannot continue from there; says what is oldest and newest
│   ├── CursorExpired                 the history after the cursor was truncated
│   └── CursorReset                   the cursor is not of this pointer's history
├── FeedUnreachable           503  retriable: no answer came from the server or broker, or its connection fell silent
├── SourceUnreachable         503  retriable: a connector's source does not answer, or says that it cannot now
├── SourceRefused             502  a connector's source refuses our credentials, or answers nonsense
├── CursorAhead                503  retriable: the cursor is beyond the newest entry that is known here
├── ForeignOrigin             403  a page from elsewhere in a browser calls a server that asks for no token
├── NotAuthenticated          401  no token, or one that proves nothing here
├── NotPermitted              403  known, but without the right; says which, never whether the thing exists
│   └── DestinationOwned              a connector alone writes below its destination
├── TooManyRequests           429  retriable: over a limit; says after how many seconds to come back
├── TooManyPlans              429  retriable: the realm or the caller has as many plans as it may
├── NotServing                503  retriable: the server is starting or stopping
├── StoreUnavailable          503  retriable: the store was not reached, nothing was changed
│   └── StoreRestored                 another copy of the data lies underneath than before
├── CommitRetriesExhausted    503  retriable: others kept winning, or the store kept failing; nothing was changed
├── RemovalUnderWay           503  retriable: files are being deleted, and it is not known whether the commit needs them
├── LaneFull                  503  retriable: too many commits wait for this pointer already
├── OutcomeUnknown            503  the store may or may not have applied the write; read to find out
│   └── CommitOutcomeUnknown          carries the entry id to ask for
├── Corruption                500  our own data contradict themselves: stop loudly
│   ├── ChecksumMismatch
│   ├── TornObject
│   ├── WrongObjectType
│   ├── ImportDiffers                 what was loaded is not what the exported file holds
│   └── ChainBroken                   an entry is not the one that its neighbour names, or a feed contradicts itself
├── IdGenerationStopped       503  an id now could repeat one
│   ├── NodeLeaseLost
│   ├── ClockMovedBackwards
│   └── AllNodesTaken
├── KafkaUnavailable          503  retriable: Kafka was not reached, or refused for now; commits continue
├── PublisherStopped          500  a shard of the publisher must not continue before somebody has looked
│   ├── HungTransaction               the progress partition cannot be read to its end
│   ├── StoreBehindKafka              Kafka holds what the store does not: it was restored from a backup
│   ├── LogDiverged                   another entry stands in the log where one was published
│   └── TopicUnusable                 a topic exists with settings that would lose records
├── ShardLost                 503  retriable: another publisher has the shard
├── MaintenanceRefused        409  nothing was deleted: maintenance must not continue as things are
│   ├── MaintenanceRunning            another run is at it; names it
│   ├── MaintenanceSuperseded         this run lost its lease to another
│   ├── MaintenanceStopped            this run's process was asked to end; the next run does the rest
│   ├── RetainedIncomplete            the retained set does not reach every head, or has a gap
│   ├── RetainedCorrupt               a stored retained set contradicts itself
│   ├── RetainedMoved                 another process has written the retained set meanwhile
│   └── FilterOverflow                the filter took more ids than it was made for
├── ExportNotWritten          500  an exported file could not be written; none is left
├── MissingDependency         501  an optional package, Java, or a server program is not on this machine
├── SparkFailed               500  a Spark job failed by an error that is none of these
└── ServerFailed              500  a local development server did not start or died
"""

from __future__ import annotations

from typing import ClassVar

Fact = str | int | float | bool | None | list["Fact"] | dict[str, "Fact"]


class HeadwaterError(Exception):
    """The one base: a stable `code`, whether trying again can help, the status of each API, and typed facts."""

    code: ClassVar[str] = "INTERNAL"
    retriable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500
    grpc_status: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, field: str | None = None, remedy: str | None = None, **facts: Fact) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy
        self.facts: dict[str, Fact] = facts

    def __str__(self) -> str:
        """One line for a person: what is wrong, where, and what to do about it."""
        where = f"{self.field}: " if self.field else ""
        what_to_do = f" {self.remedy}" if self.remedy else ""
        return f"{where}{self.message}{what_to_do}"


def errors_by_code() -> dict[str, type[HeadwaterError]]:
    """Every class of the tree, also those that plug-ins have added; the base wins where a subclass keeps its code."""
    found: dict[str, type[HeadwaterError]] = {}
    waiting = [HeadwaterError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found


# ── What the caller can mend ────────────────────────────────────────────────────────────────────────────────


class InvalidInput(HeadwaterError):
    code = "INVALID_INPUT"
    http_status = 400
    grpc_status = "INVALID_ARGUMENT"


class InvalidStoreUrl(InvalidInput):
    code = "INVALID_STORE_URL"


class InvalidName(InvalidInput):
    code = "INVALID_NAME"


class IdOutOfRange(InvalidInput):
    code = "ID_OUT_OF_RANGE"
    grpc_status = "OUT_OF_RANGE"


class AddressForbidden(InvalidInput):
    code = "ADDRESS_FORBIDDEN"
    grpc_status = "PERMISSION_DENIED"


class ObjectTooLarge(InvalidInput):
    code = "OBJECT_TOO_LARGE"
    http_status = 413


class LocationForbidden(InvalidInput):
    code = "LOCATION_FORBIDDEN"


class ExportDamaged(InvalidInput):
    code = "EXPORT_DAMAGED"


class ExportVersionMismatch(InvalidInput):
    code = "EXPORT_VERSION_MISMATCH"


class MalformedMetadata(InvalidInput):
    code = "MALFORMED_METADATA"


class MalformedViewVersion(MalformedMetadata):
    code = "MALFORMED_VIEW_VERSION"


class Unsupported(InvalidInput):
    code = "UNSUPPORTED"
    http_status = 406
    grpc_status = "UNIMPLEMENTED"


class Contradiction(InvalidInput):
    code = "CONTRADICTION"
    http_status = 422


class RequestTooLarge(InvalidInput):
    code = "REQUEST_TOO_LARGE"
    http_status = 413
    grpc_status = "RESOURCE_EXHAUSTED"


class RequestTooSlow(InvalidInput):
    code = "REQUEST_TOO_SLOW"
    http_status = 408
    grpc_status = "DEADLINE_EXCEEDED"


class ForeignOrigin(HeadwaterError):
    code = "FOREIGN_ORIGIN"
    http_status = 403
    grpc_status = "PERMISSION_DENIED"


class NotAuthenticated(HeadwaterError):
    """Reveals neither whether the client or the secret is wrong, nor whether the realm exists."""

    code = "NOT_AUTHENTICATED"
    http_status = 401
    grpc_status = "UNAUTHENTICATED"


class NotPermitted(HeadwaterError):
    code = "NOT_PERMITTED"
    http_status = 403
    grpc_status = "PERMISSION_DENIED"


class DestinationOwned(NotPermitted):
    """What lies below a connector's destination is written by that connector alone. `facts["connector"]` names it."""

    code = "DESTINATION_OWNED"


class TooManyRequests(HeadwaterError):
    """`facts["retry_after_seconds"]` says when to come back."""

    code = "TOO_MANY_REQUESTS"
    retriable = True
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"


class TooManyPlans(HeadwaterError):
    code = "TOO_MANY_PLANS"
    retriable = True
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"


class NotFound(HeadwaterError):
    code = "NOT_FOUND"
    http_status = 404
    grpc_status = "NOT_FOUND"


class RealmNotFound(NotFound):
    code = "REALM_NOT_FOUND"


class PointerNotFound(NotFound):
    code = "POINTER_NOT_FOUND"


class PointerPurged(PointerNotFound):
    code = "POINTER_PURGED"
    http_status = 410
    grpc_status = "NOT_FOUND"


class HistoryForgotten(NotFound):
    """`facts["key"]` lists the elements of the key."""

    code = "HISTORY_FORGOTTEN"
    http_status = 410


class CatalogNotFound(NotFound):
    code = "CATALOG_NOT_FOUND"


class ReferenceNotFound(NotFound):
    code = "REFERENCE_NOT_FOUND"


class RecordNotFound(NotFound):
    code = "RECORD_NOT_FOUND"


class SubscriptionNotFound(NotFound):
    code = "SUBSCRIPTION_NOT_FOUND"


class RouteNotFound(NotFound):
    code = "ROUTE_NOT_FOUND"


class MethodNotAllowed(NotFound):
    code = "METHOD_NOT_ALLOWED"
    http_status = 405
    grpc_status = "UNIMPLEMENTED"


class NamespaceNotFound(NotFound):
    code = "NAMESPACE_NOT_FOUND"


class TableNotFound(NotFound):
    code = "TABLE_NOT_FOUND"


class ViewNotFound(NotFound):
    code = "VIEW_NOT_FOUND"


class SnapshotNotFound(NotFound):
    code = "SNAPSHOT_NOT_FOUND"


class PlanNotFound(NotFound):
    code = "PLAN_NOT_FOUND"


class ContentNotFound(NotFound):
    """`facts["key"]` lists the elements of the key."""

    code = "CONTENT_NOT_FOUND"


class FileMissing(NotFound):
    """`facts["location"]` is the file."""

    code = "FILE_MISSING"


class ObjectNotFound(NotFound):
    code = "OBJECT_NOT_FOUND"


class Conflict(HeadwaterError):
    code = "CONFLICT"
    http_status = 409
    grpc_status = "FAILED_PRECONDITION"


class AlreadyExists(Conflict):
    code = "ALREADY_EXISTS"
    grpc_status = "ALREADY_EXISTS"


class ContentExists(AlreadyExists):
    code = "CONTENT_EXISTS"


class RealmExists(AlreadyExists):
    code = "REALM_EXISTS"


class CatalogExists(AlreadyExists):
    code = "CATALOG_EXISTS"


class ReferenceExists(AlreadyExists):
    code = "REFERENCE_EXISTS"


class RecordExists(AlreadyExists):
    code = "RECORD_EXISTS"


class SubscriptionExists(AlreadyExists):
    code = "SUBSCRIPTION_EXISTS"


class SubscriptionMoved(Conflict):
    code = "SUBSCRIPTION_MOVED"


class RequirementFailed(Conflict):
    code = "REQUIREMENT_FAILED"


class NamespaceNotEmpty(Conflict):
    code = "NAMESPACE_NOT_EMPTY"


class IdempotencyKeyReused(Conflict):
    code = "IDEMPOTENCY_KEY_REUSED"


class IdempotencyKeyBusy(Conflict):
    code = "IDEMPOTENCY_KEY_BUSY"
    retriable = True
    grpc_status = "ABORTED"


class PreconditionFailed(Conflict):
    code = "PRECONDITION_FAILED"
    http_status = 412


class CatalogNotEmpty(Conflict):
    code = "CATALOG_NOT_EMPTY"


class FilesCondemned(Conflict):
    """`facts["file"]` is the first of them. No retained state used it when it was chosen."""

    code = "FILES_CONDEMNED"


class SnapshotPinned(Conflict):
    """`facts["plan"]` is the plan, `facts["until"]` its end if it is not renewed, in microseconds."""

    code = "SNAPSHOT_PINNED"


class SnapshotExpired(Conflict):
    code = "SNAPSHOT_EXPIRED"


class RecordChanged(Conflict):
    code = "RECORD_CHANGED"


class CommitConflict(Conflict):
    """All conflicts of a request together: `facts["conflicts"]` lists kind, key and message of each."""

    code = "COMMIT_CONFLICT"


class MergeBaseExpired(Conflict):
    code = "MERGE_BASE_EXPIRED"


class ReferenceProtected(Conflict):
    code = "REFERENCE_PROTECTED"


class CursorGone(HeadwaterError):
    code = "CURSOR_GONE"
    http_status = 410
    grpc_status = "OUT_OF_RANGE"


class CursorExpired(CursorGone):
    code = "CURSOR_EXPIRED"


class CursorReset(CursorGone):
    code = "CURSOR_RESET"


class DuplicateRegistration(AlreadyExists):
    code = "DUPLICATE_REGISTRATION"


class RealmStateConflict(Conflict):
    code = "REALM_STATE_CONFLICT"


class RealmNotActive(Conflict):
    code = "REALM_NOT_ACTIVE"


class FeedUnreachable(HeadwaterError):
    """Raised by clients. Nothing is known to be lost; `facts["retry_after_seconds"]` if the server said when to come back."""

    code = "FEED_UNREACHABLE"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


class SourceUnreachable(HeadwaterError):
    code = "SOURCE_UNREACHABLE"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


class SourceRefused(HeadwaterError):
    code = "SOURCE_REFUSED"
    http_status = 502
    grpc_status = "FAILED_PRECONDITION"


class CursorAhead(HeadwaterError):
    code = "CURSOR_AHEAD"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


# ── What the operator can mend ──────────────────────────────────────────────────────────────────────────────


class StoreRefused(HeadwaterError):
    code = "STORE_REFUSED"
    grpc_status = "FAILED_PRECONDITION"


class StoreNotCreated(StoreRefused):
    code = "STORE_NOT_CREATED"


class StoreVersionMismatch(StoreRefused):
    code = "STORE_VERSION_MISMATCH"


class StoreAccessDenied(StoreRefused):
    code = "STORE_ACCESS_DENIED"


class StoreNotDurable(StoreRefused):
    code = "STORE_NOT_DURABLE"


class StorageDenied(StoreRefused):
    code = "STORAGE_DENIED"
    http_status = 502
    grpc_status = "FAILED_PRECONDITION"


class NotServing(HeadwaterError):
    code = "NOT_SERVING"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


class StoreUnavailable(HeadwaterError):
    code = "STORE_UNAVAILABLE"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


class StoreRestored(StoreUnavailable):
    code = "STORE_RESTORED"


class CommitRetriesExhausted(HeadwaterError):
    code = "COMMIT_RETRIES_EXHAUSTED"
    retriable = True
    http_status = 503
    grpc_status = "ABORTED"


class RemovalUnderWay(HeadwaterError):
    """A sweep deletes files near the commit, and this process cannot read what the commit needs."""

    code = "REMOVAL_UNDER_WAY"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


class LaneFull(HeadwaterError):
    code = "LANE_FULL"
    retriable = True
    http_status = 503
    grpc_status = "RESOURCE_EXHAUSTED"


class KafkaUnavailable(HeadwaterError):
    code = "KAFKA_UNAVAILABLE"
    retriable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"


class KafkaRefused(InvalidInput):
    """Brokers or a token endpoint do not let this client in: by TLS, SASL or a setting that it cannot honour."""

    code = "KAFKA_REFUSED"


class PublisherStopped(HeadwaterError):
    code = "PUBLISHER_STOPPED"
    grpc_status = "FAILED_PRECONDITION"


class HungTransaction(PublisherStopped):
    code = "HUNG_TRANSACTION"


class StoreBehindKafka(PublisherStopped):
    code = "STORE_BEHIND_KAFKA"


class LogDiverged(PublisherStopped):
    code = "LOG_DIVERGED"


class TopicUnusable(PublisherStopped):
    code = "TOPIC_UNUSABLE"


class ShardLost(HeadwaterError):
    code = "SHARD_LOST"
    retriable = True
    http_status = 503
    grpc_status = "ABORTED"


class MaintenanceRefused(HeadwaterError):
    """Nothing was deleted."""

    code = "MAINTENANCE_REFUSED"
    http_status = 409
    grpc_status = "FAILED_PRECONDITION"


class MaintenanceRunning(MaintenanceRefused):
    code = "MAINTENANCE_RUNNING"


class MaintenanceSuperseded(MaintenanceRefused):
    code = "MAINTENANCE_SUPERSEDED"


class MaintenanceStopped(MaintenanceRefused):
    code = "MAINTENANCE_STOPPED"
    retriable = True


class RetainedIncomplete(MaintenanceRefused):
    code = "RETAINED_INCOMPLETE"


class RetainedCorrupt(MaintenanceRefused):
    code = "RETAINED_CORRUPT"


class RetainedMoved(MaintenanceRefused):
    code = "RETAINED_MOVED"
    retriable = True


class FilterOverflow(MaintenanceRefused):
    code = "FILTER_OVERFLOW"


class ExportNotWritten(HeadwaterError):
    code = "EXPORT_NOT_WRITTEN"


class MissingDependency(HeadwaterError):
    code = "MISSING_DEPENDENCY"
    http_status = 501
    grpc_status = "FAILED_PRECONDITION"


class SparkFailed(HeadwaterError):
    code = "SPARK_FAILED"


class ServerFailed(HeadwaterError):
    code = "SERVER_FAILED"


# ── Unknown outcomes ────────────────────────────────────────────────────────────────────────────────────────


class OutcomeUnknown(HeadwaterError):
    """The request left and no answer came: applied or not is decided by reading, never by sending something new."""

    code = "OUTCOME_UNKNOWN"
    http_status = 503
    grpc_status = "UNKNOWN"


class CommitOutcomeUnknown(OutcomeUnknown):
    """The commit may be in the log: look for `facts["entry_id"]` before anything is committed again."""

    code = "COMMIT_OUTCOME_UNKNOWN"


# ── What must never happen ──────────────────────────────────────────────────────────────────────────────────


class Corruption(HeadwaterError):
    code = "CORRUPTION"
    grpc_status = "DATA_LOSS"


class ChecksumMismatch(Corruption):
    code = "CHECKSUM_MISMATCH"


class TornObject(Corruption):
    code = "TORN_OBJECT"


class WrongObjectType(Corruption):
    code = "WRONG_OBJECT_TYPE"


class ImportDiffers(Corruption):
    code = "IMPORT_DIFFERS"


class ChainBroken(Corruption):
    code = "CHAIN_BROKEN"


class IdGenerationStopped(HeadwaterError):
    code = "ID_GENERATION_STOPPED"
    http_status = 503
    grpc_status = "UNAVAILABLE"


class NodeLeaseLost(IdGenerationStopped):
    code = "NODE_LEASE_LOST"


class ClockMovedBackwards(IdGenerationStopped):
    code = "CLOCK_MOVED_BACKWARDS"


class AllNodesTaken(IdGenerationStopped):
    code = "ALL_NODES_TAKEN"
    grpc_status = "RESOURCE_EXHAUSTED"
