"""Buckets through boto3: S3 features missing in obstore, such as versions and odd keys.

A delete in a versioned bucket writes a *marker* over the object. Its bytes stay as a noncurrent
version until deleted by version id.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from reclaim.errors import InvalidInput, StorageUnavailable
from reclaim.model import StoredObject
from reclaim.urls import is_odd

ENABLED = "enabled"
NULL_VERSION = "null"
"""The version id of objects written without versioning; at most one for each object."""
PIECE = 8 * 1024 * 1024
LARGEST_COPY = 5 * 1024**3
"""Largest object S3 copies in a single request."""
COPIED_PART = 1024**3
MANY = 64
"""Folders enough to share the work of listing them."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of an object, or a delete marker."""

    address: str
    id: str
    size: int
    latest: bool
    marker: bool
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """An unfinished multipart upload. Its parts take space, and no listing shows them."""

    address: str
    id: str
    begun_at: datetime
    size: int


class Bucket:
    """The bucket of a storage; addresses are relative to the storage's root."""

    def __init__(self, url: str, client: Any) -> None:
        parts = urlsplit(url)
        self.name = parts.netloc
        self._root = f"{path}/" if (path := parts.path.strip("/")) else ""
        self._client = client

    def versioning(self) -> str:
        """``enabled``, ``suspended``, or "" for a bucket that was never versioned."""
        with _translated(f"the versioning of {self.name}"):
            answer = self._client.get_bucket_versioning(Bucket=self.name)
        return str(answer.get("Status") or "").lower()

    def locked(self) -> bool:
        """Whether the bucket has an object lock, which prevents deletes of versions."""
        from botocore.exceptions import ClientError  # type: ignore[import-untyped]

        try:
            answer = self._client.get_object_lock_configuration(Bucket=self.name)
        except ClientError:
            # A bucket without a lock answers with an error; so do storages without this feature.
            return False
        lock = answer.get("ObjectLockConfiguration", {})
        return bool(lock.get("ObjectLockEnabled") == "Enabled")

    def objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Yield every object with a prefix, after an address, whatever its key."""
        begin = {"StartAfter": self._root + after} if after else {}
        pages = self._client.get_paginator("list_objects_v2")
        with _translated(f"the objects below {prefix!r}"):
            for page in pages.paginate(Bucket=self.name, Prefix=self._root + prefix, **begin):
                yield from self._stored(page)

    def inside(self, prefix: str) -> tuple[list[str], list[StoredObject]]:
        """Return the folders and objects directly below a prefix; odd folders end with ``/``."""
        folders: list[str] = []
        objects: list[StoredObject] = []
        pages = self._client.get_paginator("list_objects_v2")
        with _translated(f"the folders below {prefix!r}"):
            for page in pages.paginate(Bucket=self.name, Prefix=self._root + prefix, Delimiter="/"):
                for row in page.get("CommonPrefixes", ()):
                    folder = row["Prefix"][len(self._root) :]
                    plain = folder.removesuffix("/")
                    folders.append(folder if is_odd(plain) else plain)
                objects += self._stored(page)
        return folders, objects

    def _stored(self, page: Mapping[str, Any]) -> Iterator[StoredObject]:
        for row in page.get("Contents", ()):
            address = row["Key"][len(self._root) :]
            etag = str(row.get("ETag") or "").strip('"')
            yield StoredObject(address, row["Size"], row["LastModified"], etag)

    def versions(self, prefix: str) -> Iterator[Version]:
        """Yield all versions and markers below a prefix, newest first for each object."""
        pages = self._client.get_paginator("list_object_versions")
        with _translated(f"the versions below {prefix}"):
            for page in pages.paginate(Bucket=self.name, Prefix=self._root + prefix):
                rows = [(row, False) for row in page.get("Versions", ())]
                rows += [(row, True) for row in page.get("DeleteMarkers", ())]
                rows.sort(key=lambda pair: pair[0]["LastModified"], reverse=True)
                rows.sort(key=lambda pair: (pair[0]["Key"], not pair[0]["IsLatest"]))
                for row, marker in rows:
                    yield Version(
                        row["Key"][len(self._root) :],
                        row["VersionId"],
                        row.get("Size") or 0,
                        row["IsLatest"],
                        marker,
                        (row.get("ETag") or "").strip('"'),
                    )

    def versions_of(self, address: str) -> list[Version]:
        """Return all versions and markers of an object, newest first."""
        return [version for version in self.versions(address) if version.address == address]

    def current(self, address: str) -> Version | None:
        """Return the current version of an object, or None if it is deleted."""
        from botocore.exceptions import ClientError

        with _translated(f"the version of {address}"):
            try:
                head = self._client.head_object(Bucket=self.name, Key=self._root + address)
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                    return None
                raise
        etag = (head.get("ETag") or "").strip('"')
        version = head.get("VersionId") or NULL_VERSION
        return Version(address, version, head["ContentLength"], True, False, etag)

    def cover(self, addresses: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Write delete markers over objects. Return marker ids and failures, by address."""
        named = [{"Key": self._root + address} for address in addresses]
        with _translated(f"markers in {self.name}"):
            answer = self._client.delete_objects(
                Bucket=self.name, Delete={"Objects": named, "Quiet": False}
            )
        markers = {
            row["Key"][len(self._root) :]: row["DeleteMarkerVersionId"]
            for row in answer.get("Deleted", ())
            if row.get("DeleteMarkerVersionId")
        }
        said = {row["Key"][len(self._root) :]: row["Message"] for row in answer.get("Errors", ())}
        failed = {
            address: said.get(address, "the bucket returned no marker for it")
            for address in addresses
            if address not in markers
        }
        return markers, failed

    def uncover(self, markers: Mapping[str, str]) -> None:
        """Remove delete markers by id."""
        self.delete(
            [Version(address, marker, 0, True, True) for address, marker in markers.items()]
        )

    def folders(self, folder: str) -> tuple[list[str], bool]:
        """Return the folders directly below a folder, and whether it has objects of its own.

        Folders without current versions are included.
        """
        pages = self._client.get_paginator("list_object_versions")
        names: list[str] = []
        with _translated(f"the folders below {folder}"):
            for page in pages.paginate(
                Bucket=self.name, Prefix=f"{self._root}{folder}/", Delimiter="/"
            ):
                if page.get("Versions") or page.get("DeleteMarkers"):
                    return [], True
                for row in page.get("CommonPrefixes", ()):
                    names.append(row["Prefix"][len(self._root) :].removesuffix("/"))
        return names, False

    def same(self, first: Version, second: Version) -> bool:
        """Return whether two versions hold the same bytes; reads both if their sizes match."""
        if first.size != second.size:
            return False
        return self._digest(first) == self._digest(second)

    def _digest(self, version: Version) -> bytes:
        digest = hashlib.sha256()
        key = self._root + version.address
        with _translated(f"the bytes of {version.address}"):
            answer = self._client.get_object(Bucket=self.name, Key=key, VersionId=version.id)
            for piece in answer["Body"].iter_chunks(PIECE):
                digest.update(piece)
        return digest.digest()

    def get(self, version: Version) -> bytes:
        """Return the bytes of a version."""
        key = self._root + version.address
        with _translated(f"the bytes of {version.address}"):
            answer = self._client.get_object(Bucket=self.name, Key=key, VersionId=version.id)
            return bytes(answer["Body"].read())

    def renew(self, version: Version) -> str | None:
        """Make a version current, as if written now. Return the new version id, if known."""
        return self._copy(version.address, version.address, version.size, VersionId=version.id)

    def copy(self, source: str, target: str, size: int) -> None:
        """Copy an object of any size inside the bucket."""
        self._copy(source, target, size)

    def _copy(self, source: str, target: str, size: int, **version: str) -> str | None:
        origin = {"Bucket": self.name, "Key": self._root + source, **version}
        key = self._root + target
        with _translated(f"a copy of {source}"):
            if size <= LARGEST_COPY:
                answer = self._client.copy_object(Bucket=self.name, Key=key, CopySource=origin)
                version_id: str | None = answer.get("VersionId")
                return version_id
            from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped]

            parts = TransferConfig(
                multipart_threshold=LARGEST_COPY, multipart_chunksize=COPIED_PART
            )
            self._client.copy(origin, self.name, key, Config=parts)
            return None

    def uploads(self, prefix: str) -> Iterator[Upload]:
        """Yield unfinished uploads below a prefix."""
        pages = self._client.get_paginator("list_multipart_uploads")
        with _translated(f"the uploads below {prefix}"):
            for page in pages.paginate(Bucket=self.name, Prefix=self._root + prefix):
                for row in page.get("Uploads", ()):
                    begun = row["Initiated"].astimezone(UTC)
                    size = self._uploaded(row["Key"], row["UploadId"])
                    yield Upload(row["Key"][len(self._root) :], row["UploadId"], begun, size)

    def _uploaded(self, key: str, upload_id: str) -> int:
        pages = self._client.get_paginator("list_parts")
        parts = pages.paginate(Bucket=self.name, Key=key, UploadId=upload_id)
        return sum(part["Size"] for page in parts for part in page.get("Parts", ()))

    def abort(self, upload: Upload) -> None:
        """Abort an upload, which frees its parts."""
        with _translated(f"the end of the upload of {upload.address}"):
            self._client.abort_multipart_upload(
                Bucket=self.name, Key=self._root + upload.address, UploadId=upload.id
            )

    def delete(self, versions: Sequence[Version]) -> None:
        """Permanently delete versions, or markers, which uncovers the versions below them."""
        if not versions:
            return
        named = [
            {"Key": self._root + version.address, "VersionId": version.id} for version in versions
        ]
        with _translated(f"{len(named)} versions in {self.name}"):
            answer = self._client.delete_objects(
                Bucket=self.name, Delete={"Objects": named, "Quiet": True}
            )
        _check_deleted(answer)


def _check_deleted(answer: Mapping[str, Any]) -> None:
    if failed := answer.get("Errors"):
        raise StorageUnavailable(
            f"cannot delete {failed[0].get('Key')}: {failed[0].get('Message')}"
        )


def folders(url: str, prefix: str) -> list[str]:
    """Return disjoint folders that hold every version below a prefix.

    A plain listing is not enough: it leaves out folders with all objects deleted.
    """
    bucket = open_bucket(url)
    whole: list[str] = []
    names = [prefix.rstrip("/")]
    while names and len(names) < MANY:
        below: list[str] = []
        for folder in names:
            inside, holds = bucket.folders(folder)
            if holds:
                whole.append(folder)
            below += inside
        names = below
    return [*whole, *names]


def noncurrent(url: str, within: Iterable[str]) -> tuple[int, int]:
    """Return the number and bytes of noncurrent versions below some folders."""
    count = size = 0
    for folder in within:
        for version in open_bucket(url).versions(f"{folder}/"):
            if not version.latest and not version.marker:
                count, size = count + 1, size + version.size
    return count, size


@lru_cache(maxsize=8)
def open_bucket(url: str) -> Bucket:
    """Open the bucket of a storage on S3, once for each process."""
    try:
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidInput(
            "versions and odd keys of a bucket need boto3",
            hint="install it with: pip install 'reclaim[s3]'",
        ) from error
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
    config = Config(
        connect_timeout=5, read_timeout=30, retries={"max_attempts": 3}, max_pool_connections=32
    )
    return Bucket(url, boto3.client("s3", endpoint_url=endpoint, config=config))


def versioning(url: str) -> str | None:
    """Return the versioning of a storage (see ``Bucket.versioning``); None if unknown."""
    if not url.startswith("s3://"):
        return ""
    try:
        return open_bucket(url).versioning()
    except (InvalidInput, StorageUnavailable):
        return None


@contextmanager
def _translated(what: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise StorageUnavailable(f"the request for {what} failed: {error}") from error
