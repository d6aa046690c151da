"""`kept check`: whether a measurement can measure what it claims."""
