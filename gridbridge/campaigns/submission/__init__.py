"""Reads what people submit: JDLs, job scripts, command lines, files of tasks."""
