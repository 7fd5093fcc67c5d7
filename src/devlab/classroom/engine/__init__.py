"""The grading engine behind `devlab grade`: merge, sandbox, judge, record."""
