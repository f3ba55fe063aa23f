"""Ids that nobody else has: of commits, objects, runs, leases and owners."""

from __future__ import annotations

import secrets


def new_uid() -> str:
    """128 random bits as 32 hexadecimal digits."""
    return secrets.token_hex(16)
