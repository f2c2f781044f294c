# The judge of the chaos ring says yes to a good history and no to each doctored one, for the right reason.
# matrix: T1
use strict;
use warnings;

use Outbox::History;
use Test::More;

sub intent { my ($key, $n) = @_; return { id => (defined $key ? "$key-$n" : "none-$n"), key => $key, n => $n, payload => "p$n", topic => 't' } }
sub record
{
	my ($intent, %other) = @_;
	my $record = { %$intent, place => 0, %other };
	delete $record->{n};
	$record->{bytes} = join "\0", map { "$_=" . ($record->{$_} // 'NULL') } qw(id key payload);
	return $record;
}
sub kinds { return join ' ', map { $_->{kind} } @_ }

my @intents = ((map { intent('a', $_) } 1 .. 4), (map { intent('b', $_) } 1 .. 3), map { intent(undef, $_) } 1 .. 2);
my $history = Outbox::History->new(\@intents);
my @good = map { record($_) } @intents;

my %count;
is(kinds($history->judge(\@good, count => \%count)), '', 'a good history');
is("$count{arrived} $count{repeats}", '9 0', 'is counted');
is(kinds($history->judge([ @good[ 4, 0, 1, 5, 8, 2, 6, 3, 7 ] ])), '', 'keys may interleave, events without a key come in any order');
is(kinds($history->judge([ @good[ 0 .. 1, 3 .. 8 ] ])), 'lost', 'one event lost');
is(kinds($history->judge([ @good[ 0 .. 7 ] ])), 'lost', 'also the last, without a key');
is(kinds($history->judge([ @good, record(intent('a', 5)) ])), 'phantom', 'one that was not committed');
is(kinds($history->judge([ @good[ 0, 2, 1, 3 .. 8 ] ])), 'order', 'two of a key swapped');
is(kinds($history->judge([ @good[ 3, 0, 1, 2, 4 .. 8 ] ])), 'order order order', 'one of a key too early');
is(kinds($history->judge([ @good[ 0, 1, 1, 2 .. 8 ] ])), 'duplicate', 'a repeat where none is allowed');
is(kinds($history->judge([ @good[ 0, 1, 0, 1, 2 .. 8 ] ], duplicates => 1)), '', 'repeats where they are allowed');
is(kinds($history->judge([ @good[ 0, 2, 1, 2, 3 .. 8 ] ], duplicates => 1)), 'order', 'first occurrences count: a later event before, and after');
is(kinds($history->judge([ @good, record($intents[1], payload => 'other') ], duplicates => 1)), 'bytes', 'a repeat with other bytes');
is(kinds($history->judge([ @good[ 0 .. 7 ], record($intents[8], payload => undef) ])), 'bytes', 'a payload that became NULL');
is(kinds($history->judge([ @good[ 0 .. 7 ], record($intents[8], key => '') ])), 'bytes', 'a missing key that became empty');
is(kinds($history->judge([ @good[ 1 .. 8 ], record($intents[0], topic => 'u') ])), 'bytes order', 'the wrong topic, and late');
is(kinds($history->judge([ @good[ 0, 2 .. 8 ] ], parked => { 'a-2' => 'message' })), '', 'one that is parked for its own fault');
is(kinds($history->judge([ @good[ 0, 2 .. 8 ] ], parked => { 'a-2' => 'destination' })), 'parked', 'one that is parked for the destination\'s');
is(kinds($history->judge([ map { $_->{id} eq 'a-2' ? record($intents[1], place => 1) : $_ } @good[ 0, 2, 1, 3 .. 8 ] ])), '',
	'order is promised within a place only');

my @ids = map { $_->{id} } @intents;
is(kinds($history->judge_log(\@ids)), '', 'a good log');
is(kinds($history->judge_log([ @ids[ 1 .. 8 ] ])), 'log', 'a log without one that was committed');
is(kinds($history->judge_log([ @ids, 'a-9' ])), 'log', 'a log with one that was not');
is(kinds($history->judge_log([ @ids, 'a-1' ])), 'log', 'a log with one twice');
done_testing();
