# Tells of jobs' ends as they tell of themselves (far.sh, make_ended). It runs on the frontend as
# the service's account, and only as long as its standard input is open: our end of the connection.
# Anybody there may write to the FIFO: what comes is a hint where to look, and nothing more.
use strict;
use warnings;
use Fcntl;
use POSIX 'mkfifo';

my $path = shift;
my ($folder) = $path =~ m{(.*)/};

sub number { # tells our FIFO from a later listener's
    return (lstat $path)[1] // 0;
}

umask 022;
mkdir $folder;
my ($mode, $owner) = (lstat $folder)[2, 4];
-d _ && $owner == $< && !($mode & 022) or die "$folder is not ours alone\n";
umask 0;
mkdir "$folder/used", 01733; # where ends are told, what their jobs used is left: used.pl reads it
unlink $path; # a listener whose connection was cut reads what nobody writes to, and ends
mkfifo($path, 0622) && sysopen(my $ends, $path, O_RDWR | O_NONBLOCK) or die "$path: $!\n";
my $ours = number();
my ($both, $swept) = ('', 0);
vec($both, $_, 1) = 1 for 0, fileno $ends;
while ($ours == number()) {
    my ($ready, $bytes) = ($both);
    if ($^T = time, $^T > $swept + 600) { # of an hour ago: nobody asks any more
        unlink grep { -M $_ > 1 / 24 } glob "$folder/used/*";
        $swept = $^T;
    }
    next if !select($ready, undef, undef, 60);
    last if vec($ready, 0, 1) && !sysread(STDIN, $bytes, 4096);
    next if !vec($ready, fileno $ends, 1);
    last if sysread($ends, $bytes, 65536) && !syswrite(STDOUT, $bytes);
}
unlink $path and rmdir "$folder/used" and rmdir $folder if $ours == number();
__END__
