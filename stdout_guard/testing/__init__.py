"""A server in a child process, conditions, culprit finding, reports and the hostile corpus."""
