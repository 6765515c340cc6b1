"""`atonc doctor`: what is there on this machine, what is missing for which step, and how to get it."""
