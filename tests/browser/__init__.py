"""A package, so that what has the scope "package" lasts for this folder."""
