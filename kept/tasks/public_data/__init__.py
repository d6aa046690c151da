"""`kept data`: public data sets, from their owners into KEPT_DATA."""
