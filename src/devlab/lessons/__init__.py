"""One module a lesson: its exercises as data, their judgement as ordinary code."""
