"""What a run is given instead of true knowledge."""
