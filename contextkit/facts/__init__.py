"""Facts about models and prices as rows of TOML files: what ships with the package, and what a user adds."""
