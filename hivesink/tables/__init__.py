"""Tables and their writers as others look at them: the command line, and schedulers that wait for a partition."""
