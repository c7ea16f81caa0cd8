# Prints the ids of ended jobs, which the jobs' programs write into a FIFO (far.sh, make_ended). Runs on the frontend
# as the service account, until the ssh connection closes standard input. Any user of the frontend may write into the
# FIFO, so an id is only a hint.
use strict;
use warnings;
use Fcntl;
use POSIX 'mkfifo';

my $path = shift;
my ($folder) = $path =~ m{(.*)/};

sub number { # the inode of the FIFO, which a later listener replaces
    return (lstat $path)[1] // 0;
}

umask 022;
mkdir $folder;
my ($mode, $owner) = (lstat $folder)[2, 4];
-d _ && $owner == $< && !($mode & 022) or die "$folder: expected a folder that only this account owns and can write\n";
umask 0;
mkdir "$folder/used", 01733; # for the usage of ended jobs, which used.pl reads
unlink $path; # ends an earlier listener whose connection was cut
mkfifo($path, 0622) && sysopen(my $ends, $path, O_RDWR | O_NONBLOCK) or die "$path: $!\n";
my $ours = number();
my ($both, $swept) = ('', 0);
vec($both, $_, 1) = 1 for 0, fileno $ends;
while ($ours == number()) {
    my ($ready, $bytes) = ($both);
    if ($^T = time, $^T > $swept + 600) { # usage older than an hour is not needed
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
