"""What each layer of an encoder holds of a sentence's grammar."""
