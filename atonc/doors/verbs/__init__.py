"""The verbs of the command line: each file adds its options and does one thing."""
