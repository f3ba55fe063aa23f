"""Folders of addresses, computed without a loop over addresses.

Object names all have the same length, and within a range folder names mostly do too: addresses then
form a matrix of bytes, split at a column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SLASH = ord("/")


def folders_of(addresses: pa.Array) -> pa.DictionaryArray | None:
    """Folder of each address, with trailing slash, dictionary-encoded with unique values.

    None if object names differ in length.
    """
    if not len(addresses):
        return pa.array([], pa.string()).dictionary_encode()
    name = len(addresses[0].as_py().encode().rpartition(b"/")[2])
    lengths = pc.min_max(pc.binary_length(addresses)).as_py()
    if not name:
        return None
    if lengths["min"] == lengths["max"] > name:
        return _of_matrix(addresses, lengths["min"], name)
    return _of_any(addresses, name)


def _of_matrix(addresses: pa.Array, width: int, name: int) -> pa.DictionaryArray | None:
    start = addresses.offset
    offsets = np.frombuffer(addresses.buffers()[1], np.int32, len(addresses) + 1, 4 * start)
    data = np.frombuffer(addresses.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    rows = data.reshape(len(addresses), width)
    folders, names = rows[:, :-name], rows[:, -name:]
    if (folders[:, -1] != SLASH).any() or (names == SLASH).any():
        return None
    buffer = pa.py_buffer(np.ascontiguousarray(folders))
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width - name), len(addresses), [None, buffer]
    )
    coded = fixed.dictionary_encode()
    values = coded.dictionary.cast(pa.binary()).cast(pa.string())
    return pa.DictionaryArray.from_arrays(coded.indices, values)


def _of_any(addresses: pa.Array, name: int) -> pa.DictionaryArray | None:
    """Folders of names with different lengths."""
    folders = pc.utf8_slice_codeunits(addresses, start=0, stop=-name)
    names = pc.utf8_slice_codeunits(addresses, start=-name)
    whole = pc.and_(pc.ends_with(folders, "/"), pc.equal(pc.find_substring(names, "/"), -1))
    return folders.dictionary_encode() if pc.all(whole).as_py() else None
