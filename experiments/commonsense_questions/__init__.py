"""CommonsenseQA over ConceptNet at a budget of minutes, and a positive control at that budget."""
