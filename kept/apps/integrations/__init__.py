"""kept inside other tools: scikit-learn, Hugging Face data sets, trackers of trainings."""
