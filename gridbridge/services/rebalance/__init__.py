"""What rebalancing looks at, and what it advises."""
