"""A listing that is split into folders shows every file once, or ends with an error."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.errors import StoreUnavailable, Unsupported
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.limits import Rate
from headwater.streaming.files.stores.listing import GROWTH_MAX, Share, list_in_parallel, split
from headwater.streaming.files.stores.local_files import LocalFiles
from headwater.streaming.files.stores.metered_store import Budget, MeteredStore
from tests.support.faults.manual_clock import ManualClock

ROOT = "s3://lake/shop/"


class Tree:
    """A storage in memory, with pages of two files and counted requests."""

    def __init__(self, keys: Sequence[str], fault: str = "") -> None:
        self.keys = sorted(keys)
        self.batch_max = 1
        self.fault = fault
        """A folder whose listing fails after its first page."""
        self.fired = False
        self.listed: Counter[str] = Counter()
        self.pages: Counter[str] = Counter()
        self.threads: set[str] = set()

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        self.listed[prefix] += 1
        inside = iter([FoundFile(ROOT + key, 1, 1) for key in self.keys if (ROOT + key).startswith(prefix)])
        while page := list(islice(inside, 2)):
            self.pages[prefix] += 1
            self.threads.add(threading.current_thread().name)
            yield page
            if self.fault and prefix == ROOT + self.fault and threading.current_thread().name.startswith("list-"):
                self.fired = True
                raise StoreUnavailable("503 SlowDown")

    def folders(self, prefix: str) -> Sequence[str]:
        below = [(ROOT + key)[len(prefix) :] for key in self.keys if (ROOT + key).startswith(prefix)]
        return sorted({key.partition("/")[0] for key in below if "/" in key})

    def files(self, prefix: str) -> Sequence[FoundFile]:
        keys = [ROOT + key for key in self.keys if (ROOT + key).startswith(prefix)]
        return [FoundFile(key, 1, 1) for key in keys if "/" not in key[len(prefix) :]]


def listed(store: Tree, shares: int = 8, threads: int = 3) -> list[str]:
    pages = list_in_parallel(store, ROOT, shares=shares, threads=threads)
    return [file.location.removeprefix(ROOT) for page in pages for file in page]


def alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("list-")]


names = st.text(st.sampled_from("ab%. "), min_size=1, max_size=2)
keys = st.lists(st.lists(names, min_size=1, max_size=4).map("/".join), max_size=40, unique=True)


@given(keys, st.integers(1, 12), st.integers(1, 4))
def test_every_file_is_listed_once_however_it_is_split(found: list[str], shares: int, threads: int) -> None:
    assert sorted(listed(Tree(found), shares, threads)) == sorted(found)
    assert not alive()


def test_folders_are_split_until_there_are_enough_and_none_is_split_for_nothing() -> None:
    tree = Tree([f"{folder}/{number}" for folder in ("a/x", "a/y", "b") for number in range(3)] + ["c/1", "own"])
    assert split(tree, ROOT, 1) == [Share(ROOT, True)]
    level = [Share(f"{ROOT}{name}/", True) for name in "abc"]
    assert split(tree, ROOT, 2) == [*level, Share(ROOT, False)]
    assert sorted(split(tree, ROOT, 4)) == sorted(
        [*(Share(f"{ROOT}{name}/", True) for name in ("a/x", "a/y", "b", "c")), Share(ROOT, False), Share(f"{ROOT}a/", False)]
    )
    assert split(Tree([f"{number}" for number in range(9)]), ROOT, 64) == [Share(ROOT, True)], "files alone"
    assert split(Tree(["a/1", "b/1"]), ROOT, 64) == [Share(ROOT, True)], "one page"
    many = Tree([f"{number:03}/1" for number in range(2 * GROWTH_MAX + 1)])
    assert split(many, ROOT, 2) == [Share(ROOT, True)], "each folder would cost a request"


def test_folders_of_files_alone_are_looked_at_together_and_for_one_page() -> None:
    tree = Tree([f"{folder}/{number}" for folder in range(20) for number in range(9)])
    assert len(split(tree, ROOT, 64)) == 21
    assert tree.pages == {ROOT: 2} | {f"{ROOT}{folder}/": 1 for folder in range(20)}
    assert any(name.startswith("split") for name in tree.threads) and not alive()


def test_several_threads_list_and_each_folder_is_listed_once() -> None:
    tree = Tree([f"{folder}/{number}" for folder in range(20) for number in range(20)])
    assert len(listed(tree, 20, 4)) == 400
    assert {f"list-{number}" for number in range(2)} <= tree.threads
    looked = 2  # a folder is looked at once before it is split
    assert max(tree.listed.values()) <= looked


def test_all_threads_share_one_budget_of_requests() -> None:
    class Counted(Rate):
        def __init__(self) -> None:
            super().__init__(0, ManualClock())
            self.taken = list[str]()

        def take(self, units: int = 1) -> None:
            self.taken.append(threading.current_thread().name)

    tree, requests = Tree([f"{folder}/{number}" for folder in range(9) for number in range(9)]), Counted()
    store = MeteredStore(tree, Budget(requests, Counted()))  # type: ignore[arg-type]
    pages = list(list_in_parallel(store, ROOT, shares=9, threads=3))
    assert sum(map(len, pages)) == 81
    assert sum(name.startswith("list-") for name in requests.taken) > len(pages) and len(set(requests.taken)) > 2


@pytest.mark.parametrize("fault", ["a/", "b/"])
def test_a_folder_that_cannot_be_listed_to_its_end_ends_the_whole_listing(fault: str) -> None:
    tree = Tree([f"{folder}/{number}" for folder in "abc" for number in range(9)], fault)
    with pytest.raises(StoreUnavailable, match="SlowDown"):
        listed(tree)
    assert tree.fired and not alive()


def test_a_listing_that_is_given_up_leaves_no_thread_behind() -> None:
    tree = Tree([f"{folder}/{number}" for folder in range(9) for number in range(99)])
    pages = list_in_parallel(tree, ROOT, shares=9, threads=3)
    assert next(pages)
    pages.close()  # type: ignore[attr-defined]
    assert not alive()


def test_a_key_with_an_empty_segment_at_the_top_is_refused() -> None:
    """A storage names its folder with an empty name, which would be the folder around it."""
    with pytest.raises(Unsupported, match="empty segment"):
        listed(Tree(["/x", "/y", "a/1", "b/2"]))


def test_local_folders_are_listed_in_parallel_as_in_one_listing(tmp_path: Path) -> None:
    for number in range(30):
        for name in ("data", "metadata"):
            folder = tmp_path / f"t{number}" / name
            folder.mkdir(parents=True)
            for file in range(40):
                (folder / f"{file} %2F.parquet").write_text("x")
        (tmp_path / f"t{number}" / "own").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "t1")
    root, store = f"file://{tmp_path}/", LocalFiles()
    whole = [file for page in store.list(root) for file in page]
    found = [file for page in list_in_parallel(store, root, shares=64, threads=4) for file in page]
    by_location = sorted(found, key=lambda file: file.location)
    assert by_location == sorted(whole, key=lambda file: file.location) and len(whole) == 30 * 81
    assert len(split(store, root, 64)) > 30
