"""Data-sized steps of a run, each a function of an engine and a request.

They are written once, on ``engine.base.JobRunner``: tasks read and write files, and rows are joined
and grouped like DataFrames. A new kind of run adds a module here, and no method to an engine.
"""

from __future__ import annotations

from reclaim.engine.pipelines.candidate_lists import exclude, intersect, verify
from reclaim.engine.pipelines.completeness import incomplete
from reclaim.engine.pipelines.copying import copy
from reclaim.engine.pipelines.expanding import expand
from reclaim.engine.pipelines.finding import confirm, find
from reclaim.engine.pipelines.incremental import carry, dead_entries, index
from reclaim.engine.pipelines.lifecycle import group_ranges, publish, rejudge
from reclaim.engine.pipelines.promises import needed
from reclaim.engine.pipelines.protecting import match, merge, shield
from reclaim.engine.pipelines.sweeping import recall, sweep

__all__ = [
    "carry",
    "confirm",
    "copy",
    "dead_entries",
    "exclude",
    "expand",
    "find",
    "group_ranges",
    "incomplete",
    "index",
    "intersect",
    "match",
    "merge",
    "needed",
    "publish",
    "recall",
    "rejudge",
    "shield",
    "sweep",
    "verify",
]
