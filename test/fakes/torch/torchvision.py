"""Nothing of it is used beside the PyTorch that stands in."""
