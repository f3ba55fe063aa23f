"""A wrong setting of S3 is named by its error."""

from __future__ import annotations

import pytest

from reclaim.errors import InvalidInput, ReclaimError, StorageDenied, StorageUnavailable
from reclaim.storage import ObjectStorage
from tests.support.servers import SeaweedFS

pytestmark = pytest.mark.fast


def failure(url: str, error: type[ReclaimError]) -> ReclaimError:
    with pytest.raises(error) as caught:
        list(ObjectStorage.open(url).list())
    return caught.value


def test_a_bucket_that_does_not_exist(s3: SeaweedFS) -> None:
    error = failure("s3://no-such-bucket/folder", StorageUnavailable)
    assert error.message.endswith("the bucket no-such-bucket does not exist")
    with pytest.raises(StorageUnavailable, match="no-such-bucket does not exist"):
        ObjectStorage.open("s3://no-such-bucket/folder").get("file")


def test_an_endpoint_without_tls(
    s3: SeaweedFS, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "AWS_ALLOW_HTTP=true" in str(failure(bucket, InvalidInput).hint)


def test_a_wrong_key(s3: SeaweedFS, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert "InvalidAccessKeyId" in failure(bucket, StorageDenied).message
    assert "AWS_ACCESS_KEY_ID" in str(failure(bucket, StorageDenied).hint)


def test_a_wrong_secret(s3: SeaweedFS, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert "SignatureDoesNotMatch" in failure(bucket, StorageDenied).message


def test_the_search_for_credentials_ends_at_the_machine() -> None:
    """The address at which cloud machines are asked; no test can rely on who answers there."""
    from reclaim.storage.translation import _translate

    told = RuntimeError("Error performing PUT http://169.254.169.254/latest/api/token in 1ms")
    error = _translate("list", "s3://bucket", told)
    assert isinstance(error, StorageDenied)
    assert error.message.endswith("no S3 credentials were found")
