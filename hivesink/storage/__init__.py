"""Where part files and logs live: primitives of a file system, and the two stores made from them."""
