"""stdout belongs to the protocol writer alone. Importing this does nothing; see :func:`install`."""
