"""Stores that come from outside: what the door of stores must fit."""
