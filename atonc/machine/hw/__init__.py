"""The chip: registers, units, programs of the epoch controller, what is safe, and how long an epoch takes."""
