"""`atonc board try`: a board's answers through any debugger, from a firmware in RAM to a folder with evidence."""
