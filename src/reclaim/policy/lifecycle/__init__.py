"""Lifecycle: which data goes for its age, by the prefix of its path and by branch.

A *rule* gives days to a prefix, with other days for some branches. On one day it becomes *dated
rules*: what was created on or before a date goes. An address goes only if every path that refers to
it, on every branch that reaches it, is matched. Nothing here reads a clock or a store.
"""

from reclaim.policy.lifecycle.bounds import Bounds, current_rules
from reclaim.policy.lifecycle.dated import CurrentRule, DatedRule, date_rules
from reclaim.policy.lifecycle.judging import AddressVerdict, Occurrence, judge, matched_rules
from reclaim.policy.lifecycle.parse import lifecycle_document, read_lifecycle
from reclaim.policy.lifecycle.rules import LifecyclePolicy, LifecycleRule
from reclaim.policy.lifecycle.stored import (
    StoredLifecycle,
    decode_lifecycle,
    encode_lifecycle,
)

__all__ = [
    "AddressVerdict",
    "Bounds",
    "CurrentRule",
    "DatedRule",
    "LifecyclePolicy",
    "LifecycleRule",
    "Occurrence",
    "StoredLifecycle",
    "current_rules",
    "date_rules",
    "decode_lifecycle",
    "encode_lifecycle",
    "judge",
    "lifecycle_document",
    "matched_rules",
    "read_lifecycle",
]
