"""Lifecycle rules: deletion of data by age, per path prefix and branch.

A *rule* assigns days to a prefix, with different days for some branches. On a given day it becomes
*dated rules*: entries created on or before a date match. An address is deleted only if every path
referring to it matches, on every branch reaching it. These modules read no clock and no store.
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
