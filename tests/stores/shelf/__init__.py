"""An invented store, complete in this folder: *shelves*, in a folder or a bucket.

``library`` is the shelf's own library and knows nothing of Reclaim; the others are what somebody
writes who wants Reclaim to collect shelves. ``registered`` is what installing it would leave: the
entry point by which ``shelf:LOCATION`` is found.
"""
