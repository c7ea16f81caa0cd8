"""What people bring: campaigns as a JDL, a script or lines, and tasks that are added to one."""
