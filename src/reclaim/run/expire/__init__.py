"""Expire: edit the history by rules, without deleting bytes."""
