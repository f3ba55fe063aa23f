"""Icechunk repositories: how their files are read, and what in them is live.

A *repository* is a folder or a prefix. A *snapshot* is one file; it lists *manifests*, and a
manifest gives the chunks of arrays, its *refs*: *native* ones are objects of the repository,
*inline* ones are bytes in the manifest, *virtual* ones lie somewhere else. A *transaction log* says
what a snapshot changed. In version 1 of the format (*spec*) branches and tags are files of their
own and the history is in the snapshots; in version 2 the one file ``repo`` has both, and a copy of
each ``repo`` that was replaced is kept as a *backup*.

``object_ids``, ``envelope`` and ``flatbuffer`` know the encodings; ``repo_file``, ``ref_files``,
``snapshot_file`` and ``manifest_file`` know one noun each. ``flatbuffer_schema``, ``repo_schema``
and ``repo_document`` write a changed ``repo``. None of them does any I/O.
"""
