"""The command line, with a file per command.

A command gets a *session*: the location of the catalog, and the *output*. It gives the output an
*answer*: a *document* for programs, a *view* for people. Every error becomes a *failure* with an
exit code. Heavy imports happen only when a command runs.
"""
