"""Icechunk repositories: decoding of their files, and detection of live data.

A *repository* is a folder or a prefix. A *snapshot* is a file listing *manifests*. A manifest lists
the chunks of arrays, its *refs*: *native* refs are objects of the repository, *inline* refs are
bytes in the manifest, *virtual* refs are stored elsewhere. A *transaction log* lists the changes of
a snapshot. In version 1 of the format (*spec*), branches and tags are separate files and the
history is stored in the snapshots; in version 2 the file ``repo`` contains both, and a copy of each
replaced ``repo`` is kept as a *backup*.

``object_ids``, ``envelope`` and ``flatbuffer`` implement the encodings; ``repo_file``,
``ref_files``, ``snapshot_file`` and ``manifest_file`` decode the kinds of files.
``flatbuffer_schema``, ``repo_schema`` and ``repo_document`` write a changed ``repo``. None of them
performs I/O.
"""
