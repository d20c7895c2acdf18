"""Reports about the content of files, to look at: totals, features, images, order and damage."""
