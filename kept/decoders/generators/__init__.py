"""Language models that write text with facts: one file per paper."""
