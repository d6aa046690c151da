"""Every method pre-trained on T-REx sentences with the CoDEx-S graph: losses, speed, memory."""
