"""Choosing: λ, the temperature and the number of categories, by rehearsal or by the published rules.

What a method works on is a `Problem`; `training.py` is the way to the engine; `rules.py` and `n_categories.py` each
hold one table of rules by name.
"""
