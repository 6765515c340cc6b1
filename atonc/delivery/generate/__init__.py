"""`atonc generate`: the files of a network, all together or none, and what is looked at before."""
