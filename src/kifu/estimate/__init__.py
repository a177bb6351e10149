"""What a run will take, told from a sample of its inputs."""
