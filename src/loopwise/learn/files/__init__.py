"""Systems and runs of training in files: the container, what describes an object, checkpoints."""
