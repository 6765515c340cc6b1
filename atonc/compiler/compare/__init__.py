"""A program layer by layer against exact arithmetic, and against other people's kernels in their own process."""
