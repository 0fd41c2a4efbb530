"""`contextkit proxy`: the pass-through, and the process beside it that judges and records what passed."""
