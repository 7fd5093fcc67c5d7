"""The classroom: hand out exercises, collect submissions, grade them, report."""
