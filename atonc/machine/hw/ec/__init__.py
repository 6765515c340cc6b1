"""Epoch-controller programs: instructions, blobs and containers, generated headers, assembly text, write merging."""
