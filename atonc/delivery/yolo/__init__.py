"""Networks that Ultralytics' package made: where their heads are, their data sets, and the way to C (docs/yolo.md)."""
