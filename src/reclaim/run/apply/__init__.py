"""Apply: condemn, confirm, sweep and record. ``apply_plan`` has the order."""
