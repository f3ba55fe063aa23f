"""Expire: edit the history by rules; deletes no bytes."""
