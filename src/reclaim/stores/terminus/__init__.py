"""TerminusDB stores: how their files are read, and what in them is live. No I/O here.

A *layer* is one immutable set of changes with a random id of 40 hex digits, in one file (an
*archive*) or in a directory of its own. Its *parent* is the layer it changes; a *rollup* is
another layer with the same contents that is loaded in its place; the *names* in it are ids of
layers that it holds as data. A *label* is a ref.

``logarray``, ``tfc``, ``larch`` and ``files`` know the encodings, ``layer`` and ``labels`` the
two nouns, ``graph`` what is reached, ``garbage`` what the rest once was.
"""
