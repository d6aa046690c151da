"""Tasks: data, head and metric of one experiment each, usable from an installed wheel."""
