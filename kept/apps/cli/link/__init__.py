"""kept link: the commands of the group."""
