"""Applying: the steps of one apply of a plan, under the lock; ``run.apply`` has their order.

*Condemning* marks what is dead, *confirming* drops from the plan what something reaches now. What
a plan of lifecycle rules does in their place is in ``run.lifecycle``; how an apply begins, sweeps,
records and stops is the same for both kinds, and is in ``base``.
"""
