"""Files of a layer: their numbers in an archive, their names in a directory.

A base layer (without a parent) has no files of removals, and in a directory its lists are called
``base_`` instead of ``pos_``. Only rollups have id maps: they keep the numbers of nodes and values
from the layers replaced by them.
"""

from __future__ import annotations

from collections.abc import Iterator

PREDICATES = 2
VALUES = 6
ID_MAPS = 8
REMOVED = 33
PARENT = 48

PARENT_FILE = "parent.hex"
ROLLUP_FILE = "rollup.hex"
VALUES_FILE = "value_dictionary_blocks.tfc"
OLD_VALUES_FILE = "value_dictionary_blocks.pfc"
"""File written by versions before 11, whose dictionaries encode ids differently."""
ID_MAPS_FILE = "node_value_idmap_bits.bitarray"


def _dictionaries() -> Iterator[str]:
    for name in ("node", "predicate"):
        yield f"{name}_dictionary_blocks.tfc"
        yield f"{name}_dictionary_offsets.logarray"
    yield "value_dictionary_types.logarray"
    yield "value_dictionary_type_offsets.logarray"
    yield VALUES_FILE
    yield "value_dictionary_offsets.logarray"


def _id_maps() -> Iterator[str]:
    for name in ("node_value", "predicate"):
        for part in ("bits", "bit_index_blocks", "bit_index_sblocks"):
            yield f"{name}_idmap_{part}.bitarray"


def _lists(sign: str) -> Iterator[str]:
    for name in ("s_p", "sp_o", "o_ps"):
        yield f"{sign}_{name}_adjacency_list_nums.logarray"
        yield f"{sign}_{name}_adjacency_list_bits.bitarray"
        yield f"{sign}_{name}_adjacency_list_bit_index_blocks.logarray"
        yield f"{sign}_{name}_adjacency_list_bit_index_sblocks.logarray"
    yield f"{sign}_predicate_wavelet_tree_bits.bitarray"
    yield f"{sign}_predicate_wavelet_tree_bit_index_blocks.logarray"
    yield f"{sign}_predicate_wavelet_tree_bit_index_sblocks.logarray"


def _numbered(first: int, names: Iterator[str]) -> dict[int, str]:
    return dict(enumerate(names, first))


DICTIONARY_FILES = _numbered(0, _dictionaries())
ID_MAP_FILES = _numbered(ID_MAPS, _id_maps())
BASE_FILES = DICTIONARY_FILES | _numbered(18, _lists("base"))
CHILD_LISTS = _numbered(18, _lists("pos")) | _numbered(REMOVED, _lists("neg"))
CHILD_FILES = DICTIONARY_FILES | CHILD_LISTS | {PARENT: PARENT_FILE}

BASE_REQUIRED = frozenset(BASE_FILES.values())
CHILD_REQUIRED = frozenset(CHILD_FILES.values())
BASE_MARK = BASE_FILES[18]
CHILD_MARK = CHILD_FILES[REMOVED]
