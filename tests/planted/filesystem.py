"""Bugs of the filesystem: what is staged by mistake, and what is read without a lease."""

from __future__ import annotations

from tests.planted.bug import Bug

FILES = "tests/filesystem/test_filesystem.py"
MOVES = "tests/filesystem/test_moves.py"
LEASES = "tests/filesystem/test_leases.py"

BUGS: dict[str, Bug] = {
    "an open file does not hold its commit": Bug(
        "reclaim.catalog.refs.reading",
        right="        return ObjectReader(self, *self._find(path))\n",
        wrong="        branch_like = RefReader(self._workspace, self.ref)\n"
        "        return ObjectReader(branch_like, *self._find(path))\n",
        test=f"{LEASES}::test_a_run_leaves_the_commit_of_an_open_file[embedded]",
    ),
    "an object that is cut off is read as far as it goes": Bug(
        "reclaim.catalog.refs.reading",
        right="        if len(data) != end - start:\n",
        wrong="        if len(data) > end - start:\n",
        test="tests/catalog/test_readers.py"
        "::test_a_range_that_is_not_there_whole_is_an_error[embedded-]",
    ),
    "a file is staged after an error in its block": Bug(
        "reclaim.filesystem.files",
        right="        if kind is not None:\n            self.abandon()\n",
        wrong="",
        test=f"{FILES}::test_an_error_leaves_nothing[embedded-5-None-wb]",
    ),
    "a text file is staged after an error in its block": Bug(
        "reclaim.filesystem.files",
        right="        if kind is not None:\n            self._abandon()\n",
        wrong="",
        test=f"{FILES}::test_an_error_leaves_nothing[embedded-5-None-w]",
    ),
    "an outage is a missing file": Bug(
        "reclaim.filesystem.filesystem",
        right='        except FileNotFoundError:\n            return ""\n',
        wrong='        except OSError:\n            return ""\n',
        test=f"{FILES}::test_an_outage_is_not_a_missing_file[embedded]",
    ),
    "a walk leaves out folders that cannot be read": Bug(
        "reclaim.filesystem.filesystem",
        right="    if not isinstance(error, FileNotFoundError):\n",
        wrong="    if not isinstance(error, OSError):\n",
        test=f"{FILES}::test_an_outage_is_not_a_missing_file[embedded]",
    ),
    "a part of a listing stands for all of it": Bug(
        "reclaim.filesystem.filesystem",
        right="            if infos:\n",
        wrong="            if not infos:\n",
        test=f"{FILES}::test_a_part_of_a_listing_is_an_error[embedded]",
    ),
    "the files of a collected commit are missing files": Bug(
        "reclaim.filesystem.os_errors",
        right="    (Gone, errno.ESTALE),\n",
        wrong="    (Gone, errno.ENOENT),\n",
        test=f"{LEASES}::test_a_run_leaves_the_commit_of_an_open_file[embedded]",
    ),
    "a move between branches deletes files of another writer": Bug(
        "reclaim.filesystem.filesystem",
        right='            if self.info(source).get("address") != address:\n',
        wrong='            if not self.info(source).get("address", address):\n',
        test=f"{MOVES}::test_a_move_keeps_writes_of_another_writer[a/x]",
    ),
    "a move of a file to itself deletes it": Bug(
        "reclaim.filesystem.filesystem",
        right="        self._move_files(checked_moves(files))\n",
        wrong="        self.copy(path1, path2, recursive, maxdepth)\n"
        "        self.rm(path1, recursive)\n",
        test=f"{MOVES}::test_a_move_to_the_same_path_changes_nothing[sales/main/a/x-sales/main/a]",
    ),
    "a deletion of a file expands globs": Bug(
        "reclaim.filesystem.filesystem",
        right="        path = self._strip_protocol(path)\n"
        '        if self.info(path)["type"] == "directory":\n',
        wrong="        path = self.glob(path)[0]\n"
        '        if self.info(path)["type"] == "directory":\n',
        test=f"{MOVES}::test_the_path_of_a_file_is_not_a_glob",
    ),
    "a transaction stages files that are still open": Bug(
        "reclaim.filesystem.files",
        right="            if not file.closed:\n                # A layer",
        wrong="            if file.closed is None:\n                # A layer",
        test=f"{FILES}::test_a_transaction_with_an_open_file_stages_nothing[embedded-wb]",
    ),
    "a file is staged after an error of a write": Bug(
        "reclaim.filesystem.files",
        right="which a later flush would repeat.\n            self.abandon()\n",
        wrong="which a later flush would repeat.\n",
        test=f"{FILES}::test_a_full_disk_in_the_middle_stages_nothing[embedded]",
    ),
}
