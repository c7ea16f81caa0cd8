BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE cursors (
	cluster TEXT NOT NULL, 
	path TEXT NOT NULL, 
	device TEXT NOT NULL, 
	inode TEXT NOT NULL, 
	"offset" BIGINT NOT NULL, 
	tail TEXT NOT NULL, 
	skipped BIGINT NOT NULL, 
	PRIMARY KEY (cluster)
);
INSERT INTO "cursors" VALUES('beta','/var/lib/gridengine/beta/common/accounting','18446744073709551615','9223372036854775808',3000000000,'00ff',2);
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
CREATE TABLE remote_records (
	cluster TEXT NOT NULL, 
	mark TEXT NOT NULL, 
	transfer TEXT NOT NULL, 
	source TEXT NOT NULL, 
	home TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	host TEXT NOT NULL, 
	job BIGINT NOT NULL, 
	task BIGINT NOT NULL, 
	job_id BIGINT NOT NULL, 
	kept_at VARCHAR(32) NOT NULL, 
	submitted_at VARCHAR(32), 
	started_at VARCHAR(32), 
	ended_at VARCHAR(32), 
	failed BIGINT, 
	exit_status BIGINT, 
	wallclock_s FLOAT NOT NULL, 
	user_s FLOAT NOT NULL, 
	system_s FLOAT NOT NULL, 
	max_rss_kb FLOAT, 
	PRIMARY KEY (cluster, mark, transfer)
);
INSERT INTO "remote_records" VALUES('beta','00aa','gb.alpha.7.0.1','accounting','alpha','alice','all.q','beta-n1',7,0,12,'2026-03-01T12:00:00.000000+00:00',NULL,NULL,'2026-03-01T12:00:00.000000+00:00',100,137,60.5,1.25,0.0,4760.0);
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
CREATE INDEX transfers_closed_at ON transfers (closed_at);
CREATE INDEX transfers_task ON transfers (cluster, job, task);
CREATE INDEX events_transfer ON events (name, uid);
CREATE INDEX remote_records_task ON remote_records (home, job, task);
CREATE INDEX remote_records_kept_at ON remote_records (kept_at);
COMMIT;
