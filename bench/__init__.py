"""Benchmarks: figures as ratios against a peer in the same run.

The machines that run them are noisy, so each figure is taken several times and its spread shown.
`python -m bench` runs all of them; `python -m bench stage list` only those.
"""
