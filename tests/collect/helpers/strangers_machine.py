"""The machine of applies that set aside, with what other programs leave in the same storage.

Keys that no address can have, uploads in parts that were never finished, and objects that are too
large to be copied in one request. Nothing that is a stranger's goes, and none of it stops a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import obstore
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from reclaim.errors import StorageDenied
from reclaim.storage import buckets
from reclaim.storage.buckets import Bucket, Upload, open_bucket
from tests.collect.helpers.aside_machine import AsideMachine
from tests.collect.helpers.odd_keys import is_odd_key_there, remove_odd_key, write_odd_key
from tests.collect.helpers.world import NAME
from tests.collect.plan.test_uploads import begin_upload

ODD_PLACES = st.sampled_from(["object", "partition", "container", "quarantine"])
SMALL_PART = 8


class StrangersMachine(AsideMachine):
    """Strangers write into the same storage."""

    def start(self) -> None:
        self.odd_keys: set[str] = set()
        self.refused_copies: list[str] = []
        self._limits = self._cleanup.enter_context(pytest.MonkeyPatch.context())
        super().start()

    def teardown(self) -> None:
        try:
            self.tidy_up()
        except BaseException:
            self.close()
            raise
        super().teardown()

    def check(self) -> None:
        super().check()
        missing = [key for key in self.odd_keys if not is_odd_key_there(self.world, key)]
        assert not missing, f"these were somebody's: {missing}"
        assert not self.refused_copies

    def tidy_up(self) -> None:
        """Whoever wrote odd keys takes them away again."""
        for key in self.odd_keys:
            remove_odd_key(self.world, key)
        self.odd_keys.clear()

    @rule(place=ODD_PLACES)
    def leave_an_odd_key(self, place: str) -> None:
        own = f"repos/{self.repo.uid}/"
        runs = [run.id for run in self.repo.runs()] or ["0" * 32]
        key = {
            "object": f"{min(one for one in self.world.there() if '/branches/' in one)}\nx",
            "partition": f"{own}branches/main/{'0' * 30}\n1/x",
            "container": f"{own}_reclaim/meta/{'0' * 32}\n/x",
            "quarantine": f"{own}_reclaim/quarantine/{runs[-1]}/branches/\n/x",
        }[place]
        write_odd_key(self.world, key)
        self.odd_keys.add(key)
        self.check()

    @precondition(lambda self: self.driver.versioning is not None)
    @rule(data=st.data(), old=st.booleans(), writing=st.booleans())
    def give_up_uploads(self, data: st.DataObject, old: bool, writing: bool) -> None:
        """Only what is old goes, and only where nobody is writing any more."""
        name, model, branch = self.pick(data)
        model.files["a"] = b"beside an upload"
        folder = branch.put("a", model.files["a"]).address.rpartition("/")[0]
        if not writing:
            self.reopen()
        begin_upload(self.world, f"{folder}/upload")
        begun_at = self.world.clock.now() - timedelta(hours=25 if old else 1)
        with uploads_begun(begun_at), self.world.opened() as catalog:
            store = self.world.store(catalog)
            freed = store.abort_uploads(store.old_uploads())
            left = list(open_bucket(self.world.storage.url).uploads(f"repos/{self.repo.uid}/"))
        assert len(left) == (0 if old and not writing else 1)
        assert freed == (1000 if old and not writing else 0)
        for upload in left:
            open_bucket(self.world.storage.url).abort(upload)
        assert self.catalog.repository(NAME).commit(name).id == model.head

    @precondition(lambda self: self.driver.versioning is not None)
    @rule()
    def copy_in_parts(self) -> None:
        """From now on almost everything is too large for one request, and the server says so."""
        self._limits.setattr(buckets, "LARGEST_COPY", SMALL_PART)
        self._limits.setattr(buckets, "COPIED_PART", SMALL_PART)
        client = open_bucket(self.world.storage.url)._client
        copy, copy_object = obstore.copy, client.copy_object

        def copied(store: Any, source: str, target: str) -> None:
            self._accept(source, obstore.head(store, source)["size"])
            copy(store, source, target)

        def object_copied(*, CopySource: dict[str, str], **named: str) -> Any:  # noqa: N803
            self._accept(CopySource["Key"], client.head_object(**CopySource)["ContentLength"])
            return copy_object(CopySource=CopySource, **named)

        self._limits.setattr(obstore, "copy", copied)
        self._limits.setattr(client, "copy_object", object_copied)

    def _accept(self, key: str, size: int) -> None:
        if size > SMALL_PART:
            self.refused_copies.append(key)
            raise StorageDenied(f"{key} is too large to be copied in one request")


@contextmanager
def uploads_begun(at: datetime) -> Iterator[None]:
    """Every upload was begun at a time of the world's clock."""
    uploads = Bucket.uploads

    def dated(bucket: Bucket, prefix: str) -> Iterator[Upload]:
        for upload in uploads(bucket, prefix):
            yield replace(upload, begun_at=at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "uploads", dated)
        yield
