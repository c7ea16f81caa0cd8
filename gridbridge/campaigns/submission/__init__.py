"""Reads submitted campaigns: JDLs, job scripts, command lines and task files."""
