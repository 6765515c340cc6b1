"""What every room takes for granted: errors with rule and remedy, files on disk, progress, declared options."""
