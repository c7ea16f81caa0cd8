# Prints the usage of a job, as recorded by the job's owner (far.sh, make_ended): one line with user, user time and
# system time for each file. A file counts if its owner's uid is in its name, and only the first file of each user.
use strict;
use warnings;
use Fcntl;

my ($place, $job) = @ARGV;
my %seen;
for my $path (glob "$place/$job.*") {
    my ($uid) = $path =~ /\.(\d+)\.\d+$/ or next;
    sysopen(my $file, $path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or next;
    my ($links, $owner) = (stat $file)[3, 4];
    next if !-f _ || $links != 1 || $owner != $uid || $seen{$uid}++;
    my $words = '';
    next if !sysread($file, $words, 80) || $words !~ /^(\d+(?:\.\d+)? \d+(?:\.\d+)?)\n/;
    print getpwuid($uid) // '', " $1\n";
}
