BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE decisions (
	id INTEGER NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	program TEXT NOT NULL, 
	sentence TEXT NOT NULL, 
	inputs TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE events (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	uid BIGINT NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "events" VALUES(1,'gb.alpha.7.0.1',1001,'2026-03-01T12:00:00.000000+00:00','sent');
CREATE TABLE snapshots (
	id INTEGER NOT NULL, 
	cluster TEXT NOT NULL, 
	taken_at VARCHAR(32) NOT NULL, 
	ok BOOLEAN NOT NULL, 
	took_s FLOAT NOT NULL, 
	summary TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE transfers (
	name TEXT NOT NULL, 
	uid BIGINT NOT NULL, 
	cluster TEXT NOT NULL, 
	job BIGINT NOT NULL, 
	task BIGINT NOT NULL, 
	owner TEXT NOT NULL, 
	remote TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	phase TEXT NOT NULL, 
	record TEXT NOT NULL, 
	wake TEXT NOT NULL, 
	rerun TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	updated_at VARCHAR(32) NOT NULL, 
	remote_id BIGINT NOT NULL, 
	desired TEXT NOT NULL, 
	local_state TEXT NOT NULL, 
	remote_state TEXT NOT NULL, 
	remote_host TEXT NOT NULL, 
	since VARCHAR(32), 
	missed_polls BIGINT NOT NULL, 
	missing_since VARCHAR(32), 
	seen_at VARCHAR(32), 
	verdict TEXT, 
	closed_at VARCHAR(32), 
	pinned BOOLEAN NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (name, uid)
);
INSERT INTO "transfers" VALUES('gb.alpha.7.0.1',1001,'alpha',7,0,'alice','beta','transfer-beta','released','/var/spool/gridbridge/m.0','0','','2026-03-01T12:00:00.000000+00:00','2026-03-01T12:00:00.000000+00:00',12,'','','','',NULL,0,NULL,NULL,'outcome=exit
exit_status=3
',NULL,0,'caf%C3%A9 100%25');
CREATE INDEX transfers_closed_at ON transfers (closed_at);
CREATE INDEX transfers_task ON transfers (cluster, job, task);
CREATE INDEX events_transfer ON events (name, uid);
COMMIT;
