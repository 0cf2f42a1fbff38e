"""The sink itself: tasks that write parts, the committer that decides epochs, recovery that finishes them."""
