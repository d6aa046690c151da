"""Methods beside their controls: experiments, runs by hash, verdicts, tables, pages."""
