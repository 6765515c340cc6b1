"""What the verbs of delivery show: boards, deployments, images, probes, targets."""
