"""Reports: one offline page, built from small blocks of HTML."""
