"""Commands that write or serve a page about one text."""
