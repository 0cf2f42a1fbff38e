"""The sink itself: `task` writes parts, `commit` decides epochs and carries them out, `inspect` looks and judges."""
