"""TerminusDB stores: decoding of their files, and detection of live layers. The decoders perform no
I/O.

A *layer* is one immutable set of changes with a random id of 40 hex digits, stored in one file (an
*archive*) or in a directory of its own. Its *parent* is the layer changed by it; a *rollup* is
another layer with the same contents, loaded in its place; its *names* are ids of layers stored in
it as data. A *label* is a ref.

``logarray``, ``tfc``, ``larch`` and ``files`` implement the encodings, ``layer`` and ``labels``
decode layers and labels, ``graph`` computes reachability, ``garbage`` classifies dead layers.
"""
