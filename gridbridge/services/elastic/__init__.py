"""The balancer: it looks at a cell, and at what somebody saved of one."""
