"""The one search of the compiler: decisions -> `build` -> candidate -> generators that propose other decisions.

`loop.search` builds what was proposed, keeps the best by one goal, and writes down what was tried. A new lever is a
generator: one file, and its name in `generators.GENERATORS`.
"""
