"""Submit arrays of tasks through root's helper, and process the results."""
