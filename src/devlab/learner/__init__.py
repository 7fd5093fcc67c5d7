"""The learner's record: what was passed and guessed, and the ways to see it."""
