"""What one lane of a ledger says about the calls to come."""
