"""What memory holds on a matter: said at the tail, or searched by the model."""
