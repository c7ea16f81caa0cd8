"""Findings about a site's set-up, and the edits that correct the set-up."""
