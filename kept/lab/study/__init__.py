"""One engine for every study: what is compared, its runs, their verdicts, tables and pages."""
