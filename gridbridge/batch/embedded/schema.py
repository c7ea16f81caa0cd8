"""The tables of an embedded cluster's SQLite file, and how the file is opened."""

import os
import sqlite3

from gridbridge.errors import StateError

FILE = "jobs.db"
PATIENCE_S = 10.0  # for others' transactions, each of which takes milliseconds
TABLES = """
CREATE TABLE cluster (slots INTEGER NOT NULL);
CREATE TABLE queue (
    name BLOB PRIMARY KEY, slots INTEGER NOT NULL, methods BLOB NOT NULL,
    remote BLOB NOT NULL, pending_limit INTEGER NOT NULL
);
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL, account BLOB NOT NULL, owner BLOB NOT NULL,
    shell BLOB NOT NULL, cwd BLOB NOT NULL, output BLOB NOT NULL,
    slots INTEGER NOT NULL, submitted_at REAL NOT NULL,
    held INTEGER NOT NULL, error BLOB NOT NULL DEFAULT x'',
    pid INTEGER NOT NULL DEFAULT 0, birth BLOB NOT NULL DEFAULT x'', started_at REAL,
    suspended INTEGER NOT NULL DEFAULT 0, deleting INTEGER NOT NULL DEFAULT 0,
    wanted BLOB NOT NULL DEFAULT x'', pinned BLOB NOT NULL DEFAULT x'',
    at BLOB NOT NULL DEFAULT x'', restarted INTEGER NOT NULL DEFAULT 0,
    reason BLOB NOT NULL DEFAULT x'', array INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0, walltime_s INTEGER NOT NULL DEFAULT 0,
    yields INTEGER NOT NULL DEFAULT 0, way_at REAL
);
CREATE INDEX startable ON job (yields, id) WHERE pid = 0 AND held = 0 AND error = x'';
CREATE INDEX running ON job (id) WHERE pid > 0;
CREATE INDEX job_name ON job (name);
CREATE INDEX job_array ON job (array) WHERE array > 0;
CREATE TABLE script (job INTEGER PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE ended (
    id INTEGER PRIMARY KEY, name BLOB NOT NULL, account BLOB NOT NULL, owner BLOB NOT NULL,
    slots INTEGER NOT NULL, submitted_at REAL NOT NULL, started_at REAL NOT NULL,
    ended_at REAL NOT NULL, exit_status INTEGER, signal INTEGER, reason BLOB NOT NULL,
    user_s REAL NOT NULL, system_s REAL NOT NULL, max_rss_kb INTEGER NOT NULL,
    killed_for BLOB NOT NULL DEFAULT x'', array INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX ended_array ON ended (array) WHERE array > 0;
"""
STEPS = (TABLES,)  # what each version adds
VERSION = len(STEPS)


def open_store_file(folder: str, create: bool) -> sqlite3.Connection:
    """Open or create a cluster's SQLite file; StateError if it is missing or not ours."""
    path = f"{folder}/{FILE}"
    if create:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    elif not os.path.exists(path):
        raise StateError(f"{folder}: no cluster here")
    if os.stat(folder).st_uid != os.getuid():
        raise StateError(f"{folder}: only its owner's jobs run here")
    db = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StateError(f"{path}: made by a newer gridbridge")
    if version == 0 and not create:
        raise StateError(f"{folder}: no cluster here")
    if version < VERSION:
        _upgrade(db)
    return db


def _upgrade(db: sqlite3.Connection) -> None:
    """Upgrade the file to the current version; concurrent calls upgrade it once."""
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        for step in STEPS[version:]:
            for statement in filter(str.strip, step.split(";")):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
