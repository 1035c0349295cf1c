"""The tree as written becomes the tree as meant: names found, types checked, refusals with their place."""
