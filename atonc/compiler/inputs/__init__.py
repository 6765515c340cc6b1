"""Values that networks are run on: arrays, tables and pictures in files, as codes of the inputs' formats."""
