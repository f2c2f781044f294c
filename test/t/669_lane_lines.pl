# Something that locks a table of outbox now and then, for more than a second each time, does not fill the server's log: lanes that
# work for less than five seconds between two outages have one pair of lines, with how many there were.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('one'));
my $mark = 0;
sub since { return slurp_file($node->logfile, $mark) }
sub said { my ($what, $name) = @_; return ok(wait_until(sub { since() =~ $what }, 60), $name) || diag(since()) }
sub count_of { my ($what) = @_; my $n = () = since() =~ /$what/g; return $n }
my $trouble = qr/event=lane_trouble route=redis lane=0 error_code="LOCKED"/;
my $works = qr/event=lane_works route=redis lane=0 seconds=/;
my $in_trouble = q(SELECT count(*) FROM outbox.lag WHERE error_class = 'internal');
my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);

# An event for later is parked, which waits for no lock. How long the lane worked before that, at most, if it was in trouble.
my $ended;

sub outage {
	$holder->query_safe('BEGIN; LOCK TABLE outbox_internal.parked IN SHARE MODE');
	$node->safe_psql('postgres', q(SELECT outbox.emit('order', 'k', 'one', '{}', deliver_at => now() + interval '1 day')));
	wait_for_value($node, $in_trouble, 1, 60) || die 'no trouble';
	my $gap = defined $ended ? time - $ended : 0;
	sleep 2.5;    # it lasts, so that it is told
	$ended = time;
	$holder->query_safe('COMMIT');
	wait_for_value($node, $in_trouble, 0, 60) || die 'trouble stays';
	return $gap;
}

# A machine that is too busy for that tries again.
my $together;
foreach my $try (1 .. 10) {
	($mark, $ended) = (-s $node->logfile, undef);
	outage();
	said($trouble, 'an outage is told');
	$together = 1;
	foreach (1 .. 3) { $together &&= outage() < 4 }
	my $here = since();
	said($works, 'and in the end that it is over');
	last if $together && ok($here !~ $works, 'not before all works for some seconds');
}
ok($together, 'four outages, with less than four seconds between them');
is(count_of($trouble), 1, 'have one warning');
is(count_of($works), 1, 'and one line of their end');
like(since(), qr/LOG:  outbox: lane 0 of route "redis" works again after [\d.]+ s\n.*DETAIL:  It was in trouble 4 times within [\d.]+ s; this is the last of them, and ended [\d.]+ s before this line\./,
	'with their number');
my ($last, $all, $ago) = since() =~ /works again after ([\d.]+) s\n.*in trouble 4 times within ([\d.]+) s;.*ended ([\d.]+) s before/;
cmp_ok($last, '>=', 2, 'the length of the last one');
cmp_ok($all, '>=', 4 * 2.5, 'and of all');
cmp_ok($ago, '>=', 5, 'and when it ended');

# Trouble that comes later is another one.
$mark = -s $node->logfile;
$ended = undef;
outage();
said($trouble, 'a later outage has lines of its own');
said(qr/LOG:  outbox: lane 0 of route "redis" works again after [\d.]+ s\n.*DETAIL:  Its trouble ended [\d.]+ s before this line\./, 'and its end');
$holder->quit;
no_server_crashed($node);
done_testing();
