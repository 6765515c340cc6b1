"""`atonc evaluate`: accuracy on whole data sets, in the chip's own arithmetic."""
