"""Models behind servers: addresses, requests, protocols, and what is found out before decoding."""
