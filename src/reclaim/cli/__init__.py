"""The command line: one file per command.

A *session* is what a command works with: where the catalog is, and the *output*. A command gives
the output one *answer*, which is a *document* for programs and a *view* for people. Whatever goes
wrong becomes a *failure* with an exit code. Nothing heavy is imported before a command runs.
"""
