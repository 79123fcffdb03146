"""A node of the tree between clients and server: it joins its parent as one client and serves its own as a server does."""
