# A program to be recorded: Perl splits text into words, counts them and their neighbours in hashes
# of hashes, and sorts what it found. Every scalar's text and every table is a block.
use strict;
use warnings;

my @parts = qw(al be ca do er fi ga ho in jo ka lu ma no or pi qua ri st tu un vi we xo ya zu);
my $state = 7;
sub below { $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $_[0]; }
sub word { return join '', map { $parts[below(scalar @parts)] } 1 .. 1 + below(4); }

my (%count, %after, @kept);
for my $line (1 .. 30000) {
    my $text = join ' ', map { word() } 1 .. 5 + below(12);
    my $last = '';
    for my $word (split / /, $text) {
        $count{$word}++;
        $after{$last}{$word}++ if $last;
        $last = $word;
    }
    (my $changed = $text) =~ s/(\w)(\w+)/\U$1\E$2/g;
    push @kept, [$line, $changed, length $text];
    shift @kept if @kept > 8000;
    delete $after{$last} if $line % 7 == 0;
}
my @order = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $report = join "\n", map { "$_ $count{$_} " . join ',', sort keys %{$after{$_} // {}} } @order;
print length $report, "\n";
