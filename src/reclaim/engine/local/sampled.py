"""The sample of live addresses as the oracle engine chooses it: by a hash of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from reclaim.engine.tasks import sampling
from reclaim.engine.tasks.sampling import Keys, Sample, Within
from reclaim.stores.format import Format


def sample_of(addresses: Iterable[str], within: Within) -> Sample:
    """The sample of some live addresses."""
    named = pa.chunked_array([pa.array(sorted(set(addresses)), pa.string())])
    sample = Sample()
    sample.add(named, hashes_of(named), within)
    return sample


def own_objects(format: Format) -> Within:
    return partial(sampling.below, format.prefix)


def count_sampled(rows: pa.Table, sample: Sample) -> int:
    """How many of some listed objects are in the sample."""
    return sampling.count_sampled(hashes_of(rows.column("address")), sample.keys)


def hashes_of(addresses: pa.ChunkedArray) -> Keys:
    """The key of each address, by another hash than that of the engine on Spark."""
    hashes = (
        blake2b(name.lower().encode(), digest_size=8).digest() for name in addresses.to_pylist()
    )
    return np.frombuffer(b"".join(hashes), np.uint64)
