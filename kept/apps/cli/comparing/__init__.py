"""kept compare, report, curve and audit."""
