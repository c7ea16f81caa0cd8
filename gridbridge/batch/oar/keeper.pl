# The first process of gridbridge's jobs under OAR. $shell, $cwd, $tells and $tasks (0: not an array) are set above; the
# job's script follows __END__. OAR signals only this process (oardel(1), -s) and reports this process's end. So the
# keeper passes signals on to the job's process group, TSTP and CONT as STOP and CONT, and ends like the job. It makes
# TMPDIR, which OAR lacks, and sets Grid Engine's variables.
use strict;
use warnings;
use Config;

my ($job, $stopped, $private) = (0, 0, '');
my @early; # signals that came before the job's pid was known
$SIG{TSTP} = sub { $stopped = 1; kill 'STOP', -$job if $job };
$SIG{CONT} = sub { $stopped = 0; kill 'CONT', -$job if $job };
for my $name (qw(HUP INT QUIT TERM USR1 USR2)) {
    $SIG{$name} = sub { $job ? kill $name, -$job : push @early, $name };
}

sub give_up { # ends by a signal that shows the reason, like the wrapper
    my ($why) = @_;
    system '/bin/rm', '-rf', $private if $private;
    leave_array();
    kill $why // 58, $$;
    exit 200;
}

sub join_array { # keeps the array's script for the other tasks, and lets each task run once
    mkdir "$0.begun", 0700;
    mkdir "$0.begun/$ENV{OAR_ARRAY_INDEX}", 0700 or give_up();
}

sub leave_array { # removes the array's files after the last task
    return if !$tasks;
    mkdir "$0.begun/$ENV{OAR_ARRAY_INDEX}.ended", 0700;
    opendir(my $folder, "$0.begun") || return;
    system '/bin/rm', '-rf', $0, "$0.begun" if !-e $0 || $tasks == grep { /ended/ } readdir $folder;
}

sub contents {
    local $/;
    open(my $file, '<', $_[0]) || return '';
    return <$file> // '';
}

sub hostname {
    chomp(my $name = contents('/proc/sys/kernel/hostname'));
    return $name || give_up();
}

sub make_private { # makes a folder on the node's disk that other users can't read
    my ($under, $host) = @_;
    for (1 .. 9) {
        my $path = "$under/gridbridge.$ENV{OAR_JOB_ID}.$$." . int(rand 1e9) . ".$host";
        return $path if mkdir $path, 0700;
    }
    give_up();
}

sub tidy_up { # removes folders of keepers that a power failure ended
    my ($under, $host) = @_;
    opendir(my $folder, $under) || return;
    for my $name (readdir $folder) {
        my ($keeper) = $name =~ /^gridbridge\.\d+\.(\d+)\.\d+\.\Q$host\E$/ or next;
        system '/bin/rm', '-rf', "$under/$name" if -o "$under/$name" && !kill 0, $keeper;
    }
}

sub write_script {
    my ($path, $script) = @_;
    open(my $file, '>', $path) || give_up();
    (print {$file} $script) && close($file) || give_up();
}

sub slots { # returns the slots of each host; OAR's file has a line for each slot
    my ($host) = @_;
    open(my $file, '<', $ENV{OAR_NODEFILE}) || return $host => 1;
    chomp(my @lines = <$file>);
    my %slots;
    $slots{$_}++ for @lines ? @lines : $host;
    return %slots;
}

sub write_hosts { # writes the hosts in the form of sge_pe(5); returns the variables for the job
    my (%slots) = @_;
    my ($all, $path) = (0, "$private/pe_hostfile");
    $all += $_ for values %slots;
    write_script($path, join '', map { "$_ $slots{$_} $ENV{OAR_JOB_ID}\@$_ UNDEFINED\n" } sort keys %slots);
    return (NSLOTS => $all, NHOSTS => scalar(keys %slots), PE_HOSTFILE => $path);
}

sub become_job {
    my ($host) = @_;
    setpgrp 0, 0;
    delete @SIG{keys %SIG};
    $SIG{$_} = 'DEFAULT' for qw(TSTP CONT HUP INT QUIT TERM USR1 USR2 PIPE);
    my %environment = map { $_ => $ENV{$_} } grep { /^(OAR_|HOME$|LOGNAME$|SHELL$|USER$)/ } keys %ENV;
    %ENV = (
        %environment,
        ENVIRONMENT => 'BATCH',
        HOSTNAME    => $host,
        JOB_ID      => $ENV{OAR_JOB_ID},
        JOB_NAME    => $ENV{OAR_JOB_NAME},
        write_hosts(slots($host)),
        PATH        => '/usr/local/bin:/usr/bin:/bin',
        TMPDIR      => "$private/tmp",
        $tasks ? (gb_usage => "$private/usage") : (),
    );
    open STDIN, '<', '/dev/null';
    exec {$shell} $shell, "$private/script" or kill 62, $$;
    exit 200;
}

sub note_usage { # records the usage for the program that reports the job's end (far.sh)
    my (undef, undef, $user, $system) = times;
    (my $path = $0) =~ s{[^/]*$}{used.$ENV{OAR_JOB_ID}};
    open(my $file, '>', $path) || return;
    print {$file} "$user $system\n";
}

sub write_usage { # writes largest resident set and written kB to the file that task.sh has linked for keeper.pl
    open(my $file, '>', "$private/usage") || return;
    print {$file} "$_[0] ", int $_[1], "\n";
}

sub note_memory {
    my $number = {x86_64 => 98, aarch64 => 165}->{(split /-/, $Config{archname})[0]}; # of getrusage(2), not in Perl
    my $usage = "\0" x 256;
    return if !$number || !-l "$private/usage" || syscall($number, -1, $usage); # -1: RUSAGE_CHILDREN
    my ($rss_kb, $blocks) = (unpack 'l!16', $usage)[4, 12];
    write_usage($rss_kb, $blocks / 2);
}

sub note_memory_so_far { # what the job's living processes, and what they waited for, have used; see proc(5)
    my ($most_kb, $written) = (0, 0);
    for my $pid (grep { getpgrp $_ == $job } map { m{(\d+)$} } glob '/proc/[0-9]*') {
        my ($rss_kb) = contents("/proc/$pid/status") =~ /^VmHWM:\s*(\d+)/m or next;
        $most_kb = $rss_kb if $rss_kb > $most_kb;
        $written += $1 if contents("/proc/$pid/io") =~ /^write_bytes: (\d+)/m;
    }
    write_usage($most_kb, $written / 1024) if $most_kb && -l "$private/usage";
}

sub watch_over { # starts a process that cleans up if OAR kills the keeper
    pipe my $read, my $write or give_up();
    if (my $child = fork // give_up()) {
        waitpid $child, 0;
        return $write;
    }
    exit 0 if fork; # OAR kills only children of the keeper
    setpgrp 0, 0;
    close $write;
    close $_ for *STDIN, *STDOUT, *STDERR;
    exit 0 if <$read>;
    kill 'KILL', -$job;
    leave_array();
    exec '/bin/rm', '-rf', $private;
}

sub wait_for_job { # in short waits, because a signal just before a wait is handled only after the wait
    local $SIG{CHLD} = sub { };
    my $due = $^T + ($ENV{OAR_JOB_WALLTIME_SECONDS} // 1e9) - 15; # soon OAR kills the job with its keeper
    until (waitpid($job, 1) == $job) { # 1: WNOHANG, without loading POSIX
        note_memory_so_far() if $tasks && time >= $due;
        select undef, undef, undef, 1;
    }
    return $?;
}

umask 022;
my $script = do { local $/; <DATA> };
$tasks ? join_array() : unlink $0;
chdir($cwd eq '' ? $ENV{HOME} : $cwd) or give_up(57);
my ($under, $host) = ($ENV{TMPDIR} // '/tmp', hostname());
tidy_up($under, $host);
$private = make_private($under, $host);
mkdir "$private/tmp" or give_up();
write_script("$private/script", $script);
$job = fork // give_up();
become_job($host) if !$job;
setpgrp $job, $job;
kill $_, -$job for @early;
my $line = watch_over();
kill 'STOP', -$job if $stopped;
my $status = wait_for_job();
note_usage() if $tells;
note_memory();
kill 'KILL', -$job;
system '/bin/rm', '-rf', $private;
syswrite $line, "done\n";
leave_array();
my $signal = $status & 127;
exec '/bin/sh', '-c', 'ulimit -c 0; kill "-$0" $$', $signal if $signal;
exit $status >> 8;
