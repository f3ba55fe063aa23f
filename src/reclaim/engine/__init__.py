"""The engine: the steps of a run whose size is that of the data.

``base`` says what a run asks, ``tasks`` what one task does. ``spark`` spreads tasks over machines,
``local`` runs them in this process.
"""
