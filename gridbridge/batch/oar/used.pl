# Show what a job used, as people say of themselves who ended it (far.sh, make_ended): whose word it
# is and the word, a line each. A file counts if it is whose its name says, and each person once.
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
