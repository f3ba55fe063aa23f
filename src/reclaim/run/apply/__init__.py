"""Apply: condemn, confirm, sweep and record, by a plan; ``apply_plan`` has the order."""
