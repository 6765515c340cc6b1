"""What the user asked for: the options, the target that follows from them, typical inputs."""
