"""From a placed schedule to programs and files."""
