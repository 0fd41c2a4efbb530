"""What the Responses API keeps between requests: responses, conversations, and the endpoints that show them."""
