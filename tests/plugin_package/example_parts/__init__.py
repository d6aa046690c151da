"""Parts of kept from another package."""
