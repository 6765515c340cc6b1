"""Networks, runtime and harness as one image, and the cross compiler that builds it."""
