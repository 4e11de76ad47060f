"""On every backend: a commit sees the removal of a file that it needs, or the removal sees the commit, in every order.

The commit reads its head, reads the removal intents and moves its pointer. The removal writes its intent, fences the realm and
deletes what no head needs. Every order of these steps is gone through.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.commit.committer import Committer
from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents, RemovalPhase, read_intents
from headwater.persistence.store import Store, StoreOptions
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits import catalog_commit
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergView, Namespace
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.errors import FilesCondemned, RemovalUnderWay
from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.reach_files import condemned_files_of
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.condemned_files import write_condemned
from headwater.streaming.files.sweep.retained_contents import retained_contents
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.id_set import IdCollector
from headwater.streaming.reachability.safeguards import ALL_ON, Safeguards
from tests.support.faults.faulty_backend import FaultyBackend
from tests.support.faults.manual_clock import ManualClock
from tests.support.faults.stepped_commit import Steps

META = CommitMeta("ada")
SALT = b"0123456789abcdef"
REMOVAL_STEPS, COMMIT_STEPS, STEPS_OF_TWO_ATTEMPTS = 3, 3, 6


def orders_of(commit_steps: int) -> list[tuple[str, ...]]:
    """Every order of the commit's steps and the removal's."""
    count = commit_steps + REMOVAL_STEPS
    taken = itertools.combinations(range(count), REMOVAL_STEPS)
    return [tuple("R" if at in removal else "C" for at in range(count)) for removal in taken]


class Race:
    """A committing process whose calls can be held, and a remover beside it, in one realm."""

    def __init__(self, backend: Backend, realm: str, folder: Path, safeguards: Safeguards = ALL_ON) -> None:
        self.clock = ManualClock()
        self.backend = backend
        self.realm = realm
        self.safeguards = safeguards
        self.steps = Steps()
        committing = FaultyBackend(backend)
        self.steps.hook(committing)
        self.store = Store(committing, StoreOptions(), self.clock)
        self.store.reach_files = condemned_files_of({})
        self.kernel = self.store.kernel(realm)
        self.root = f"file://{folder}/"
        catalog = Catalogs(self.kernel).ensure("lake", storage_root=self.root, meta=META)
        self.catalog_id = catalog.id
        self.pointer = branch_pointer(catalog.id, "main")
        self.view = folder / "v.metadata.json"
        self.view.write_text('{"format-version": 1, "versions": []}')
        self.intents = RemovalIntents(backend, self.clock, "run-1")
        self.intent = RemovalIntent("run-1-0", "run-1", self.root, realm, catalog.id, salt=SALT)
        self.removal = iter((self._intend, self._fence, self._delete))
        fence_realm(backend, realm, self.clock, safeguards)

    @property
    def committer(self) -> Committer:
        return self.kernel.committer

    def request(self, key: str = "v") -> CatalogCommit:
        location = f"file://{self.view}"
        return CatalogCommit(self.kernel, [Put((key,), IcebergView(metadata_location=location))], META)

    def hold_head(self) -> None:
        """The lane keeps its head, and remembers that there was no intent at its fence."""
        self.committer.commit(self.pointer, CatalogCommit(self.kernel, [Put(("n",), Namespace())], META))

    def remove_step(self) -> None:
        next(self.removal)()

    def _intend(self) -> None:
        condemned = IdCollector()
        condemned.add([fingerprint(f"file://{self.view}", SALT)])
        written = write_condemned(Storages(), self.intent, condemned.finish())
        self.intent = self.intents.put(_deleting(written))

    def _fence(self) -> None:
        self.spans = fence_realm(self.backend, self.realm, self.clock, self.safeguards).spans

    def _delete(self) -> None:
        needed = {content.location for content in retained_contents(self.backend, self.realm, self.spans)}
        if f"file://{self.view}" not in needed:
            self.view.unlink()

    def close(self) -> None:
        self.intents.remove([self.intent.id])
        self.committer.close()


def _deleting(intent: RemovalIntent) -> RemovalIntent:
    import msgspec

    return msgspec.structs.replace(intent, phase=RemovalPhase.DELETING)


@pytest.fixture
def races(backend: Backend, realm: str, tmp_path: Path) -> Iterator[list[Race]]:
    made: list[Race] = []
    yield made
    for race in made:
        race.close()


def outcome_of(race: Race, order: tuple[str, ...]) -> str:
    """Go through one order, then let both continue to their ends."""
    future = race.steps.start(lambda: race.committer.submit(race.pointer, race.request()))
    for turn in order:
        race.steps.step() if turn == "C" else race.remove_step()
    race.steps.go_on()
    refusal = future.exception(timeout=60)
    assert refusal is None or isinstance(refusal, FilesCondemned), refusal
    if refusal is None:
        return "kept" if race.view.exists() else "LOST"
    return "refused" if not race.view.exists() else "refused early"


@pytest.mark.parametrize("head", ["read", "held"])
def test_no_order_of_steps_acknowledges_a_commit_whose_file_is_deleted(
    backend: Backend, realm: str, kind: str, tmp_path: Path, races: list[Race], head: str
) -> None:
    """A commit that the fence has refused reads its head again: in memory those steps are gone through, too."""
    commit_steps = STEPS_OF_TWO_ATTEMPTS if kind == "memory" else COMMIT_STEPS
    orders = orders_of(commit_steps)[:: 1 if kind in ("memory", "sqlite") else -4]  # from the end: the commit comes first there
    outcomes = []
    for number, order in enumerate(orders):
        folder = tmp_path / str(number)
        folder.mkdir()
        race = Race(backend, f"{realm}{number}", folder)
        races.append(race)
        if head == "held":
            race.hold_head()
        outcomes.append(outcome_of(race, order))
        race.intents.remove([race.intent.id])
    assert "LOST" not in outcomes, dict(zip(orders, outcomes, strict=True))
    assert {"kept", "refused"} <= set(outcomes), "a race that always ends alike shows nothing"


def test_without_the_gate_a_file_is_lost(
    backend: Backend, realm: str, tmp_path: Path, races: list[Race], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_commit, "require_files_stay", lambda *_: None)
    race = Race(backend, realm, tmp_path)
    races.append(race)
    assert outcome_of(race, tuple("RRRCCC")) == "LOST"


def test_a_fence_that_repeats_would_lose_the_file(
    backend: Backend, realm: str, kind: str, tmp_path: Path, races: list[Race]
) -> None:
    """The clock stands still, so that without rising fences the second fence has the value of the first."""
    outcomes = {}
    for rising in (True, False):
        folder = tmp_path / str(rising)
        folder.mkdir()
        race = Race(backend, f"{realm}{rising}", folder, Safeguards(rising_fences=rising))
        races.append(race)
        race.hold_head()
        for _ in range(3):
            race.remove_step()
        refusal = race.committer.submit(race.pointer, race.request()).exception(timeout=60)
        outcomes[rising] = refusal is not None
        race.intents.remove([race.intent.id])
    assert outcomes == {True: True, False: False}


def test_a_process_without_file_storage_refuses_commits_near_a_removal_and_no_others(
    backend: Backend, realm: str, tmp_path: Path, races: list[Race]
) -> None:
    race = Race(backend, realm, tmp_path)
    races.append(race)
    race.store.reach_files = None
    race.committer.commit(race.pointer, race.request("before"))
    race.remove_step()
    race.remove_step()
    with pytest.raises(RemovalUnderWay) as refused:
        race.committer.commit(race.pointer, race.request("during"))
    assert refused.value.retriable and refused.value.facts["root"] == race.root
    race.committer.commit(race.pointer, CatalogCommit(race.kernel, [Put(("plain",), Namespace())], META))
    race.intents.remove([race.intent.id])
    race._fence()
    race.committer.commit(race.pointer, race.request("after"))


def test_intents_of_several_holders_coexist_and_end(backend: Backend, realm: str) -> None:
    clock = ManualClock()
    one, two = (RemovalIntents(backend, clock, holder) for holder in ("one", "two"))
    first = one.put(RemovalIntent(f"{realm}-a", "one", "s3://a/", realm, 1))
    two.put(RemovalIntent(f"{realm}-b", "two", "s3://b/", realm, 2))
    assert {f"{realm}-a", f"{realm}-b"} <= {intent.id for intent in read_intents(backend)}
    one.require(first, 60)
    with pytest.raises(Exception, match="is gone"):
        two.require(first, 60)
    clock.move(3_590)
    with pytest.raises(Exception, match="has ended"):
        one.require(first, 60)
    two.remove([f"{realm}-b"])
    clock.move(27 * 3_600)
    one.put(RemovalIntent(f"{realm}-c", "one", "s3://a/", realm, 1))
    assert {f"{realm}-a", f"{realm}-b"}.isdisjoint(intent.id for intent in read_intents(backend))
    one.remove([f"{realm}-c"])
