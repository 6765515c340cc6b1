"""The steps of a deployment, one file each: a function that does it, or says what it would do."""
